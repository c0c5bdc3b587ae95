#pragma once
// Builds the Halide pipeline of one kernel. Runs in a child process that holds no other Func.

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// An argument of a kernel: which value it is bound to, and how the kernel sees it.
struct KernelArgument {
    ValueId value;
    int offset = 0;  ///< elements
    Halide::Type type;
    std::vector<int> extents;  ///< dense, innermost first
    bool written = false;
    /// The kernel still computes the same if this, which it reads, lies where the last argument does, its one result.
    bool replaceable = false;
};

struct BuiltKernel {
    Group group;
    Halide::Pipeline pipeline;
    std::vector<Halide::Argument> inputs;
    std::vector<KernelArgument> arguments;  ///< in the order of the compiled function
    std::string loops;                      ///< name of the loop schedule that was applied
    std::string layer;                      ///< type of the layer that owns the loop nest, where one does
    std::string loops_of;   ///< what lines call its loops: "h.0.mlp.c_fc, d_parameter"; empty: no line can name them
    std::string algorithm;  ///< digest of the algorithm and the arguments alone, where it was asked for
    std::string key;        ///< digest of algorithm, schedule, arguments and target
    /// The keys of the kernel with each of the step's automatic loops that may serve, from `first_automatic` on. Empty
    /// unless no loops are written, or a line's number `automatic` asks for automatic ones. The first key is `key`.
    std::vector<std::string> automatic_keys;
    int first_automatic = 0;
};

struct BuildOptions {
    bool scheduled = true;  ///< false: the algorithm as it is, for comparison
    bool key = true;
    bool algorithm = false;
    bool bounds = true;  ///< checks every index against the extents of its array: needed once for each key
};

/// Whether an operation is in the stage that a line is about which gives a number of loops.
bool is_stage_of(const StepProgram &p, const ir::Op &op, const Step::LoopValue &line);

/// Builds a kernel. One with automatic keys is left unscheduled: autoschedulers take seconds, keys milliseconds.
BuiltKernel build_kernel(const StepProgram &p, const ir::Kernel &k, const Machine &m, const BuildOptions &options = {});

/// Schedules a kernel that has automatic keys with the loops of its key `way`.
void apply_automatic(BuiltKernel &k, const Step &step, const Machine &m, int way = 0);

/// Compiles to an object file; the function is "cryolite_" + key.
void compile_kernel(const BuiltKernel &k, const Machine &m, const std::string &object);

}  // namespace cryolite::compiler
