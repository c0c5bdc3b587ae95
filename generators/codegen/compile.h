#pragma once
// Compiles the kernels of a step, each in child processes that hold no other Func: so a key is the same in
// every process, and a compiler that aborts is an error message.

#include <functional>
#include <map>

#include "dialects/product.h"
#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

/// What is known of a compiled kernel.
struct CompiledKernel {
    std::string key, loops, layer, form;
    std::vector<KernelArgument> arguments;
    bool by_halide =
        true;  ///< false: the first of `dialects`, or the runtime, computes it, and there is no compiled kernel
    std::vector<std::pair<std::string, Product>> dialects = {};  ///< what else can compute it
    std::string loops_of = {}, algorithm = {};                   ///< as BuiltKernel has them
    std::vector<Tunable> tunables = {};                          ///< of its loops
};

struct CompileOptions {
    std::string store{};   ///< folder of compiled kernels: KEY.o
    int jobs = 2;          ///< child processes at a time
    int time_limit = 120;  ///< seconds for one kernel
    /// Called after each distinct kernel: how many are done, of how many, and how many were found compiled.
    std::function<void(int done, int total, int cached)> progress{};
    bool algorithms = false;  ///< the digests of algorithms, too
};

struct CompileReport {
    std::vector<CompiledKernel> kernels;  ///< as in the program
    int distinct = 0, cached = 0;
};

/// The product of a kernel, its arguments as places in the kernel's.
Product with_arguments(Product product, const std::vector<KernelArgument> &arguments);

/// The keys of all kernels and what they read and write, from building each: nothing is compiled. Where there is a
/// store, the key of automatic loops is that of those in it. Errors: a line names a number that no kernel's loops have.
CompileReport describe_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options);

/// Bytes of temporaries (temporaries.h) by key, of kernels that are in the store already. Errors: one is not.
std::map<std::string, int64_t> temporaries_of_kernels(const StepProgram &p, const Machine &m,
                                                      const CompileOptions &options);

/// Throws where a kernel cannot be built or compiled, naming it and the reason. Loops that nobody wrote are taken only
/// if they compute what the unscheduled kernel computes; a note on stderr names those that are refused.
CompileReport compile_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options);

}  // namespace cryolite::compiler
