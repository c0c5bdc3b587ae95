#pragma once
// What a program says of a step before anything is compiled.

#include <optional>

#include "bundle/plan.h"
#include "client/programs.h"

namespace cryolite {

/// Where updates are placed and what is rematerialised so that a step fits.
struct FittingWay {
    std::string update;
    uint64_t budget = 0;  ///< 0: nothing is rematerialised for it
    int head_rows = -1;
    int64_t bytes = 0;  ///< that the run takes then, in one process
};

/// What a program says of memory, before it compiles anything.
struct StepFit {
    std::map<std::string, int64_t> roles;  ///< bytes of the step as it was asked for, by role, in one process
    int64_t largest = 0;                   ///< elements of its largest tensor
    bool fits = false;
    std::optional<FittingWay> way;     ///< where it does not: what of that which may be chosen does
    std::optional<FittingWay> advice;  ///< where nothing of it does: what else would
    int64_t least = 0;                 ///< bytes of all that was tried
};

/// What a step is held against.
struct FitQuestion {
    int64_t bytes = 0;                     ///< that arrays and staging may take in one process
    int64_t staging = 0;                   ///< for each element of the largest tensor
    int replicas = 1;                      ///< workers in one process
    bool update = true, recompute = true;  ///< which of the two may be chosen
};

/// Errors: the program's own message.
StepFit fit_step(const Program &program, const BundleRequest &request, const FitQuestion &question);

/// The step of a program as text, after this pass of the compiler or after "all". Nothing is compiled. Errors: the
/// program's own message; no such pass (names those there are).
std::string step_text(const Program &program, const BundleRequest &request, const std::string &pass);

/// Bytes of temporaries that a thread needs for any one kernel of a step, which the cache has compiled. Errors: the
/// program's own message.
int64_t kernel_temporaries(const Program &program, const BundleRequest &request, const Cache &cache);

/// The plan of a step. Nothing is compiled. Errors: the program's own message.
Plan step_plan(const Program &program, const BundleRequest &request);

}  // namespace cryolite
