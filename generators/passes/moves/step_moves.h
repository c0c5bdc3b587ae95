#pragma once
// Lines of text that a step could have beside its own: what a search over step schedules tries.

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// A line, or several that belong together. Whether it is legal the passes say.
struct StepMove {
    std::string line;   ///< "s(h.*.mlp.act).compute_with(h.*.mlp.c_fc)": the same stages of all blocks are one move
    int64_t bytes = 0;  ///< of memory traffic that it may save a step; 0: none that is known
};

/// Of a program that all passes have been through: which stages share a kernel and which no longer do, where each
/// update lives, chunks of the head, dialects of products, widths of panels, values that the backward pass
/// rematerialises, and chosen lines where nobody asked for them. Those that may save most come first.
std::vector<StepMove> moves_of(StepProgram &p);

}  // namespace cryolite::compiler
