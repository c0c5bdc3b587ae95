#pragma once
// What a program says of a step before anything is compiled.

#include <optional>

#include "bundle/plan.h"
#include "client/programs.h"
#include "runtime/files/safetensors.h"

namespace cryolite {

/// Settings with which a step fits into memory: where updates are placed, and what is rematerialised.
struct FittingWay {
    std::string update;
    uint64_t budget = 0;  ///< 0: nothing is rematerialised for it
    int head_rows = -1;
    int64_t bytes = 0;  ///< that the run then takes in one process
};

/// What a program says of memory, before it compiles anything.
struct StepFit {
    std::map<std::string, int64_t> roles;  ///< bytes of the step as it was asked for, by role, in one process
    int64_t largest = 0;                   ///< elements of its largest tensor
    bool fits = false;
    std::optional<FittingWay> way;     ///< if it does not fit: a way that does, of what may be chosen
    std::optional<FittingWay> advice;  ///< if there is no such way: another way that fits
    int64_t least = 0;                 ///< the fewest bytes of all ways that were tried
};

/// The memory that a step has to fit into, and what may be chosen for it.
struct FitQuestion {
    int64_t bytes = 0;                     ///< that arrays and staging may take in one process
    int64_t staging = 0;                   ///< for each element of the largest tensor
    int replicas = 1;                      ///< workers in one process
    bool update = true, recompute = true;  ///< which of the two may be chosen
};

/// Asks a program whether its step fits into memory. Errors: the program's own message.
StepFit fit_step(const Program &program, const BundleRequest &request, const FitQuestion &question);

/// The step of a program as text, after this pass of the compiler or after "all". Nothing is compiled. Errors: the
/// program's own message; there is no such pass (names those that there are).
std::string step_text(const Program &program, const BundleRequest &request, const std::string &pass);

/// Bytes of temporaries that a thread needs for any one kernel of a step, which the cache has compiled. Errors: the
/// program's own message.
int64_t kernel_temporaries(const Program &program, const BundleRequest &request, const Cache &cache);

/// The names and shapes of the weights of a program's model. Errors: the program's own message.
std::vector<TensorSpec> model_weights(const Program &program, const BundleRequest &request);

/// The plan of a step. Nothing is compiled. Errors: the program's own message.
Plan step_plan(const Program &program, const BundleRequest &request);

}  // namespace cryolite
