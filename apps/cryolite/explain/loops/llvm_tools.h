#pragma once
// llvm-objdump and llvm-mca on compiled kernels, as child processes.

#include <optional>
#include <string>
#include <vector>

#include "apps/cryolite/explain/loops/inner_loops.h"
#include "runtime/io/files.h"

namespace cryolite {

/// Commands of one version of LLVM.
struct LlvmTools {
    std::string objdump, mca;
};

/// The newest version on PATH, if it knows current processors; none: `install_llvm_tools` says what to install.
std::optional<LlvmTools> find_llvm_tools();
extern const char *const install_llvm_tools;

/// The sum loops of all functions of an object file or a shared library. Errors: llvm-objdump's own words.
std::vector<SumLoop> sum_loops(const LlvmTools &tools, const fs::path &object);

/// What llvm-mca predicts for a loop: cycles of one iteration, if only the processor's ports and its width limit it.
struct LoopSpeed {
    std::string processor;  ///< as LLVM calls it
    double cycles = 0;      ///< of the whole loop
    double fma_cycles = 0;  ///< of its multiply-adds alone: no schedule is faster
    double run_cycles = 0;  ///< of the whole loop, if sums wait for the sums before them, too
    double share() const { return fma_cycles / cycles; }
};

/// Predicts every loop on a processor, "native": this machine's. Errors: llvm-mca's own words.
std::vector<LoopSpeed> predict(const LlvmTools &tools, const std::vector<SumLoop> &loops,
                               const std::string &processor = "native");

}  // namespace cryolite
