#pragma once
// Names of layers and parameters without the numbers of their blocks.

#include <optional>
#include <string>

namespace cryolite {

/// "h.11.mlp.c_fc" -> "h.*.mlp.c_fc": equal kernels of equal blocks are one line.
std::string without_numbers(const std::string &name);

/// "11" of that name, "1.0" of "stages.1.blocks.0.conv": what stands for its stars.
std::string block_numbers(const std::string &name);

/// Without numbers, of lines of a schedule, where a star stands for the same characters in all places: none where their
/// names are of different blocks, or of no block.
std::optional<std::string> line_for_blocks(const std::string &line);

}  // namespace cryolite
