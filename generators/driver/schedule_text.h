#pragma once
// The whole schedule of a step as text that `--schedule` takes: what `explain --ir lines` prints.

#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// Lines that give the step again, with or without the flags that place things (--update, --head-rows, --recompute,
/// --dialect), beside those that say what is computed: after `s.clear()` the lines that were written or chosen, then
/// what flags and defaults decided, as lines. Behind each stands what came of it, or who decided. Comments say what no
/// line can, and have the numbers of all loops with what is legal. `p`: all passes have been through it with these
/// options and this budget; `compiled` is of its kernels. The same lines of all blocks are one, with a star.
std::string schedule_text(StepProgram &p, const StepOptions &options, int64_t budget, const CompileReport &compiled);

}  // namespace cryolite::compiler
