#pragma once
// Trains a bundle. This runs in a child process, as a wrong kernel may crash.

#include <filesystem>
#include <string>

#include "apps/cryolite/fuzz/fuzz_case.h"

namespace cryolite {

/// The batches of a case, one for each step, and the scalars of its optimizer, as JSON: the input of `train_case` and
/// of the reference (PROGRAM --reference).
std::string job_of(const FuzzCase &c);

/// Trains the bundle of a case. Returns {"losses": [...], "evaluation": L, "initial": {...}, "parameters": {...},
/// "bytes": N, "arena": N, "withheld": N}, numbers innermost first, null where one is not finite.
std::string train_case(const std::filesystem::path &bundle, const FuzzCase &c);

}  // namespace cryolite
