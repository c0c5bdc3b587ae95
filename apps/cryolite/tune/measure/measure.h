#pragma once
// Measurements, which run in a child process, as a kernel that is being tried may crash. A job is given as JSON.

#include <span>
#include <string>

#include "apps/cryolite/tune/measure/kernel_run.h"
#include "apps/cryolite/tune/search.h"

namespace cryolite {

/// Does a job, and returns the answer as JSON. Jobs:
///   {"what": "profile", "bundle": DIR, "threads": N, "accumulate": N, "scalars": {name: value}}
///       -> {"step": seconds, "kernels": {index in the plan: [seconds of each of its calls]}, "busy": bool}
///   {"what": "kernel", "bundle": DIR, "kernel": symbol in its plan, "threads": N,
///    "before": {"folder": DIR, "symbol": S}, "after": {...}, "seconds": X}
///       -> {"before": seconds, "after": seconds, "noise": of their ratio, "same_bits": bool, "busy": bool}
///   {"what": "step", "before": DIR, "after": DIR, "threads": N, "accumulate": N, "scalars": {name: value},
///    "seconds": X} -> the same
/// Errors: why the candidate must not be taken.
std::string measure(const std::string &job);

/// Times two kernels with equal arguments in turn, for `seconds`. `after` has to give the same bits each time that it
/// runs, also after it was timed, and on a CPU on one thread, for three orders of the iterations of its parallel loops.
/// It may differ from `before` only by as much as another order of additions does. Errors: which of these conditions it
/// violates.
Timing compare_kernels(KernelRun &run, Bundle::Function before, Bundle::Function after, Device &device, double seconds);

/// The largest |before - after| / |before| of losses of the same steps; infinite where one is not finite.
double relative_difference(std::span<const double> before, std::span<const double> after);

}  // namespace cryolite
