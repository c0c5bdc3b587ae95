#pragma once
// Measurements in a process of their own, as kernels that are being tried may do anything: the jobs, as JSON.

#include <string>

#include "apps/cryolite/tune/measure/kernel_run.h"
#include "apps/cryolite/tune/search.h"

namespace cryolite {

/// Does what a job asks; the answer as JSON. Jobs:
///   {"what": "profile", "bundle": DIR, "threads": N, "accumulate": N}
///       -> {"step": seconds, "kernels": {index in the plan: [seconds of each of its calls]}, "busy": bool}
///   {"what": "kernel", "bundle": DIR, "kernel": symbol in its plan, "threads": N,
///    "before": {"folder": DIR, "symbol": S}, "after": {...}, "seconds": X}
///       -> {"before": seconds, "after": seconds, "noise": of their ratio, "same_bits": bool, "busy": bool}
///   {"what": "step", "before": DIR, "after": DIR, "threads": N, "accumulate": N, "seconds": X} -> the same
/// Errors: why what is measured must not be taken.
std::string measure(const std::string &job);

/// Times of two kernels with equal arguments, in turn for so many seconds. `after` has to give the same bits on one
/// thread and on all, with the iterations of its parallel loops from the last to the first and by a stride, and after
/// it was timed, and what `before` gives but for the order of additions. Errors: what of this it does not do.
Timing compare_kernels(KernelRun &run, Bundle::Function before, Bundle::Function after, Device &device, double seconds);

}  // namespace cryolite
