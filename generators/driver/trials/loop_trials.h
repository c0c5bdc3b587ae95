#pragma once
// What a search over loops asks of a generator program: which numbers the loops of a step have, and kernels with other
// numbers, each compared with the unscheduled kernel and linked by itself.

#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// The numbers of all loops as lines, each once: "loops(h.0.mlp.c_fc, forward): rows=4 columns=48;  // rows 1, 2 or 4".
std::string loop_lines(const CompileReport &compiled, const Machine &m);

/// The same as JSON: [{"kernel": name, "symbol": ..., "algorithm": ..., "loops_of": ..., "loops": ...,
/// "tunables": [{"name", "value", "usual", "legal", "same_order"}]}], one for each distinct kernel.
std::string loops_json(const StepProgram &p, const CompileReport &compiled);

/// Compiles candidates of a kernel as `request` asks: {"kernel": name, "candidates": ["rows=4 columns=48", ...]}, each
/// in a child. Prints a JSON line when a candidate is done: {"candidate": n, "symbol": ..., "unsure": why it was not
/// compared} once it is linked into FOLDER/n/kernels.so, or {"candidate": n, "error": why it is refused}. If the
/// request also has {"expected": a file, "algorithm": the kernel's}, the file keeps the unscheduled kernel's results
/// for the next request. Errors: the step has no such kernel.
void try_loops(const StepProgram &p, Step &step, const Machine &m, const CompileOptions &how,
               const std::string &request, const std::string &folder);

}  // namespace cryolite::compiler
