#pragma once
// Lines of text that a step could have beside its own: what a search over step schedules tries.

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// A line, or several that belong together. The passes decide whether it is legal.
struct StepMove {
    std::string line;   ///< "s(h.*.mlp.act).compute_with(h.*.mlp.c_fc)": the same stages of all blocks are one move
    int64_t bytes = 0;  ///< of memory traffic that it may save a step; 0: none that is known
};

/// The moves of a program that has been through all passes: stages that come to share a kernel or no longer do, other
/// places of updates, chunks of the head, dialects of products, widths of panels, values that the backward pass
/// rematerialises, and `s.automatic()` where the program does not ask for it. Those that may save most come first.
std::vector<StepMove> moves_of(StepProgram &p);

}  // namespace cryolite::compiler
