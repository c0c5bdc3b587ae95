#pragma once
// Runs a kernel by itself on random inputs, with its loop schedule and without it. Builds Funcs, so it runs in a child.

#include <functional>

#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

/// The inputs that a kernel is compared on. `small`: random / 256, so that a constant which keeps a root from zero
/// matters; `large`: 8 * random, so that a value which is not kept in range overflows; `tiny`: half of them denormal.
enum class Inputs { random, positive, small, large, tiny };

/// A kernel compiled in this process.
class KernelTrial {
public:
    /// `checked`: with Halide's own checks of bounds.
    KernelTrial(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built, const Machine &m, bool checked);
    /// The kernel without a loop schedule, checked.
    static KernelTrial unscheduled(const StepProgram &p, const ir::Kernel &k, const Machine &m);

    /// Runs the kernel on such inputs and returns the bytes of all arrays that it writes, in the order of its
    /// arguments. A result that may replace an input is written there. Throws where the kernel fails or writes outside
    /// its arrays. Reading far from an array is a crash: before it or, with `at_end`, after it.
    std::string run(Inputs inputs = Inputs::random, bool at_end = false);
    /// The same, but `instead` computes; it gets the addresses of the arguments.
    std::string run(const std::function<void(const std::vector<void *> &)> &instead, Inputs inputs = Inputs::random,
                    bool at_end = false);

private:
    const StepProgram &p;
    const ir::Kernel &k;
    std::vector<KernelArgument> arguments;
    Halide::Callable callable;
};

/// The largest difference of an output's element from the expected one, relative to the largest element of its array.
double distance(const BuiltKernel &built, const std::string &expected, const std::string &got);

/// The results of the unscheduled kernel, with which several candidates can be compared.
struct Expected {
    std::vector<std::pair<Inputs, std::string>> outputs;
    std::string hindrance;  ///< why there are none
};
/// With `all`, the results for all kinds of inputs that give finite numbers; otherwise for the first of `random` and
/// `positive` that does. The kernel runs in a child, for `seconds` at most. Throws where it fails.
Expected unscheduled_outputs(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built, const Machine &m,
                             int seconds, bool all);
/// Throws where a scheduled kernel computes other results than expected, or other results when it runs again, or where
/// it writes past the end of an array.
void hold_against(const Expected &expected, const BuiltKernel &built, KernelTrial &scheduled);

/// Throws, with the reason, where a scheduled kernel computes something else than the unscheduled one. Returns why they
/// could not be compared; empty: they agree. The unscheduled one may run for `seconds`.
std::string compare_with_unscheduled(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built,
                                     const Machine &m, int seconds);

}  // namespace cryolite::compiler
