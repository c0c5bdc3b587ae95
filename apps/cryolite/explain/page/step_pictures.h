#pragma once
// The pictures of a step's page, as SVG within HTML: their colours are the page's variables.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace cryolite {

/// Equal kernels of equal blocks, in one line.
struct KernelLine {
    std::string name;
    double flops = 0, bytes = 0;  ///< of one call
    int calls = 0;
    double share = 0;  ///< of the step's time, if every call ran at the roofline
    bool by_memory = false;
    double seconds = 0;  ///< of one call, as it was timed on this machine; 0: it was not

    /// Its speed as a fraction of what the machine's roof allows; 0 where it was not timed.
    double share_of_roof(double peak, double bandwidth) const;
};

/// The arena over the step: a rectangle for each activation, from its first call to its last. `arena`: that of
/// `explain --json`.
std::string memory_picture(const nlohmann::json &arena);

/// FLOP/s over FLOP/byte, both logarithmic: the machine's roof, and how fast each kernel was under it; one that was not
/// timed is a hollow circle on the roof. `peak` in GFLOP/s, `bandwidth` in GB/s. The first `numbered` lines have their
/// numbers.
std::string roofline_picture(const std::vector<KernelLine> &lines, size_t numbered, double peak, double bandwidth);

}  // namespace cryolite
