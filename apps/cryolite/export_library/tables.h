#pragma once
// The plan of a training step as tables of C, for a library that trains without Cryolite (library.c.in runs them).

#include <string>
#include <vector>

#include "bundle/plan.h"
#include "bundle/range.h"

namespace cryolite {

/// What a library's code for one target is made of, beside the plan.
struct VariantFacts {
    std::string name;                   ///< of the target: avx2
    int input_classes = 0;              ///< ids of the input are below it; 0: its inputs are numbers
    int64_t scratch = 0;                ///< bytes of temporaries of one thread
    std::vector<RealRange> ranges;      ///< of the plan's scalars
    std::vector<std::string> features;  ///< of the processor, by the names of __builtin_cpu_supports
};

/// Throws UsageError for a step that the library cannot run; the message names what to change. The kernels need not be
/// compiled yet.
void check_exportable(const Plan &plan);
/// The same for a step's compiled kernels.
void check_kernels(const Plan &plan);

/// "arm-64-linux" -> "arm_64_linux"
std::string c_name(std::string name);

/// The text of a source file such as tables_avx2.c.
std::string variant_tables(const Plan &plan, const VariantFacts &facts);

}  // namespace cryolite
