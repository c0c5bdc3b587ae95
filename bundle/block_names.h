#pragma once
// Names of layers and parameters without the numbers of their blocks.

#include <optional>
#include <string>

namespace cryolite {

/// "h.11.mlp.c_fc" -> "h.*.mlp.c_fc": equal kernels of equal blocks have one name.
std::string without_numbers(const std::string &name);

/// The numbers that stars replace: "11" of that name, "1.0" of "stages.1.blocks.0.conv".
std::string block_numbers(const std::string &name);

/// A line of a schedule without numbers, where every star stands for the same number. Nothing: its names are of
/// different blocks, or of no block.
std::optional<std::string> line_for_blocks(const std::string &line);

}  // namespace cryolite
