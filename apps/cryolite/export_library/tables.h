#pragma once
// The plan of a training step as tables of C, for a library that trains without Cryolite (library.c.in runs them).

#include <string>

#include "runtime/plan/plan.h"

namespace cryolite {

/// What beside the plan decides the library.
struct LibraryFacts {
    std::string name;                   ///< of the library: gpt
    int input_classes = 0;              ///< ids of the input are below it; 0: its inputs are numbers
    int64_t scratch = 0;                ///< bytes of temporaries of one thread
    std::vector<std::string> features;  ///< of the processor, by the names of __builtin_cpu_supports
};

/// Throws UsageError for a step that the library cannot run, naming the flag that makes one it can.
void check_exportable(const Plan &plan);

/// tables.c
std::string library_tables(const Plan &plan, const LibraryFacts &facts);

}  // namespace cryolite
