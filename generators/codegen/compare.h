#pragma once
// Runs a kernel by itself on random inputs: with its loops, and as the algorithm has it. Builds Funcs: in a child.

#include <functional>

#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

/// What a kernel is compared on. `small`: a 256th of random ones, so that what keeps a root from zero counts; `large`:
/// eight times as large, so that what is not kept in range overflows; `tiny`: half of them denormal.
enum class Inputs { random, positive, small, large, tiny };

/// A kernel compiled in this process.
class KernelTrial {
public:
    /// `checked`: with Halide's own checks of bounds.
    KernelTrial(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built, const Machine &m, bool checked);
    /// The kernel as the algorithm has it, checked.
    static KernelTrial unscheduled(const StepProgram &p, const ir::Kernel &k, const Machine &m);

    /// Runs it on such inputs; the bytes of all arrays that it writes, in the order of its
    /// arguments. Throws where it reads or writes what it must not.
    std::string run(Inputs inputs = Inputs::random);
    /// The same by `instead`, which gets the addresses of the arguments.
    std::string run(const std::function<void(const std::vector<void *> &)> &instead, Inputs inputs = Inputs::random);

private:
    const StepProgram &p;
    const ir::Kernel &k;
    std::vector<KernelArgument> arguments;
    Halide::Callable callable;
};

/// The farthest that an element of an output lies from what is expected, relative to the largest of its array.
double distance(const BuiltKernel &built, const std::string &expected, const std::string &got);

/// What the unscheduled kernel makes of inputs, for several candidates to be held against it.
struct Expected {
    std::vector<std::pair<Inputs, std::string>> outputs;
    std::string hindrance;  ///< why there are none
};
/// `all`: of all inputs of which it makes finite numbers, else of the first such. It runs in a child, for `seconds` at
/// most. Throws where it fails.
Expected unscheduled_outputs(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built, const Machine &m,
                             int seconds, bool all);
/// Throws where a scheduled kernel computes something else, not twice the same, or writes past the end of an array.
void hold_against(const Expected &expected, const BuiltKernel &built, KernelTrial &scheduled);

/// Throws, with the reason, where a scheduled kernel computes something else than the unscheduled one. Returns a word
/// where they could not be compared; empty: they agree. The unscheduled one may run for `seconds`.
std::string compare_with_unscheduled(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built,
                                     const Machine &m, int seconds);

}  // namespace cryolite::compiler
