#pragma once
// Work done in a forked child, its result a string: a crash, an abort or an endless loop is an error here.

#include <functional>
#include <string>
#include <vector>

namespace cryolite::compiler {

struct ChildResult {
    std::string output;  ///< what the work returned
    std::string error;   ///< empty: it went well
    bool late = false;   ///< it took longer than its limit
    bool died = false;   ///< it ended by a signal, without a result or without memory
};

/// Runs `work(i)` for i in 0..count-1 in forked children, `jobs` at a time, each within `time_limit` seconds: of a
/// processor while it computes, of the clock while it waits. `done(i, result)` is called in this process as each ends.
void run_children(int count, int jobs, int time_limit, const std::function<std::string(int)> &work,
                  const std::function<void(int, const ChildResult &)> &done);

/// Compiles the runtime of Halide's kernels for this process, if it has none yet. It takes half a second, which each
/// child that runs kernels would take for itself. No Func is made of it, so that names of later ones stay, which are
/// numbered; no thread begins, so that children may be forked after it.
void share_jit_runtime();

}  // namespace cryolite::compiler
