#pragma once
// What a bundle's steps come to, in a process of their own: a wrong kernel may do anything.

#include <filesystem>
#include <string>

#include "apps/cryolite/fuzz/fuzz_case.h"

namespace cryolite {

/// The numbers of a case's batches, one for each of its steps, and of its optimizer, as JSON: what `train_case` and the
/// reference (PROGRAM --reference) are given.
std::string job_of(const FuzzCase &c);

/// Trains a bundle with it: {"losses": [...], "evaluation": L, "initial": {...}, "parameters": {...}, "bytes": N,
/// "arena": N}, numbers innermost first, null where one is not finite.
std::string train_case(const std::filesystem::path &bundle, const FuzzCase &c);

}  // namespace cryolite
