#pragma once
// Runs work in forked children, whose results are strings. A crash, an abort or an endless loop there is an error here.

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

/// Runs `work(i)` for i in 0..count-1 in forked children, `jobs` at a time, each within `time_limit` seconds: of CPU
/// time while it computes, of elapsed time while it waits. `done(i, result)` is called in this process as each ends.
void run_children(int count, int jobs, int time_limit, const std::function<std::string(int)> &work,
                  const std::function<void(int, const ChildResult &)> &done);

/// Compiles Halide's JIT runtime for this process, if it has none yet. That takes half a second, which each child that
/// runs kernels would otherwise take for itself. It makes no Func, so that the numbers in the names of later Funcs stay
/// the same, and starts no thread, so that children may be forked after it.
void share_jit_runtime();

}  // namespace cryolite::compiler
