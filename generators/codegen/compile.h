#pragma once
// Compiles the kernels of a step, each in child processes that hold no other Func: so a key is the same in
// every process, and a compiler that aborts is an error message.

#include <functional>
#include <map>

#include "dialects/product.h"
#include "generators/lowering/kernel/kernel_builder.h"
#include "generators/passes/placement/memory.h"

namespace cryolite::compiler {

/// What is known of a compiled kernel.
struct CompiledKernel {
    std::string key, loops, layer, form;
    std::vector<KernelArgument> arguments;
    bool by_halide =
        true;  ///< false: the first of `dialects`, or the runtime, computes it, and there is no compiled kernel
    std::vector<std::pair<std::string, Product>> dialects = {};  ///< the dialects that can compute it, too
    std::string loops_of = {}, algorithm = {};                   ///< as BuiltKernel has them
    std::vector<Tunable> tunables = {};                          ///< of its loops
    bool automatic = false;                                      ///< an autoscheduler or plain_loops() makes its loops
};

struct CompileOptions {
    std::string store{};   ///< folder of compiled kernels: KEY.o
    int jobs = 2;          ///< child processes at a time
    int time_limit = 120;  ///< seconds for one kernel
    /// Called after each distinct kernel: how many are done, of how many, and how many were found compiled.
    std::function<void(int done, int total, int cached)> progress{};
    bool algorithms = false;  ///< computes the digests of algorithms, too
};

struct CompileReport {
    std::vector<CompiledKernel> kernels;  ///< in the program's order
    int distinct = 0, cached = 0;
};

/// What the compiled kernels of a program read and write, in its order.
std::vector<Touched> touched_by(const StepProgram &p, const CompileReport &compiled);

/// Replaces the ids of values in a kernel's product by indices of the kernel's arguments.
Product with_arguments(Product product, const std::vector<KernelArgument> &arguments);

/// Builds all kernels to find their keys and what they read and write, but compiles nothing. Where there is a store, a
/// kernel with automatic loops gets the key under which the store has it. Errors: a line names a number that no
/// kernel's loops have.
CompileReport describe_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options);

/// Bytes of temporaries (temporaries.h) of the kernels, by key. Errors: a kernel is not in the store yet.
std::map<std::string, int64_t> temporaries_of_kernels(const StepProgram &p, const Machine &m,
                                                      const CompileOptions &options);

/// Compiles the kernels that are not in the store. Throws where a kernel cannot be built or compiled, naming it and the
/// reason. Automatic loops are used only if they compute what the unscheduled kernel computes; a note on stderr names
/// those that are refused.
CompileReport compile_kernels(const StepProgram &p, const Machine &m, const CompileOptions &options);

}  // namespace cryolite::compiler
