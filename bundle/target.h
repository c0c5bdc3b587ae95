#pragma once
// What kernels may be compiled for, by the names of --target: a table that both halves read.

#include <optional>
#include <string>
#include <vector>

namespace cryolite {

struct TargetLine {
    std::string name;                   ///< "avx2"
    std::string halide;                 ///< as Halide spells it
    std::string machine;                ///< what `uname -m` calls such a processor; empty: any, this one is the target
    std::vector<std::string> features;  ///< that kernels use, by the names of gcc's __builtin_cpu_supports
    std::string device = "cpu";         ///< --device; a GPU's kernels are started by any processor
};

/// "vectors" is this processor without its matrix tiles. Kernels with tiles call a function of the program that loads
/// them, and libraries have none.
/// Targets of the same machine are in order: those with fewer instructions come first.
const std::vector<TargetLine> &target_table();

/// The targets in a flag's text, "avx2" or "baseline,avx2", in the table's order; "x86-64" stands for all of that
/// machine, "auto" for "host". Nothing: a name is not in the table, or is given twice.
std::optional<std::vector<const TargetLine *>> targets_of(const std::string &text);

/// Whether kernels for a --target multiply tiles of bf16 on this processor.
bool multiplies_tiles(const std::string &target);

/// "host, baseline, ...": what a flag expects.
std::string expected_targets();

}  // namespace cryolite
