#pragma once
// The whole schedule of a step as text that `--schedule` takes: what `explain --ir lines` prints.

#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// Lines that give the same step again. With them the flags that place things (--update, --head-rows, --recompute,
/// --dialect) may be given or left out; the flags that decide what is computed must be the same. After `s.clear()` come
/// the lines that were written or chosen, then lines for what flags and defaults decided. A comment behind each line
/// says what came of it, or who decided it. Other comments say what no line can, and list the numbers of all loops with
/// their legal values. Equal lines of all blocks are one line, with a star. `p` has been through all passes with these
/// options and this budget; `compiled` describes its kernels.
std::string schedule_text(StepProgram &p, const StepOptions &options, int64_t budget, const CompileReport &compiled);

}  // namespace cryolite::compiler
