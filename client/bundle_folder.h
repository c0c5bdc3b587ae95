#pragma once
// Bundles by name, for apps that bring theirs along: `cryolite compile` makes them, and cryolite_add_bundle of CMake.

#include <string>

#include "runtime/io/files.h"

namespace cryolite {

/// The folder NAME.bundle (plan.json and kernels.so): in one of the folders of CRYOLITE_BUNDLES, which colons separate;
/// else beside the executable; else in ../lib/cryolite/bundles from there.
///     Bundle(bundle_folder("my_model"))
/// Errors: there is none (names the folders), or one without its files.
fs::path bundle_folder(const std::string &name);

}  // namespace cryolite
