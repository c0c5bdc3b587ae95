#pragma once
// Programs in a build without the compiler's half (CRYOLITE_COMPILER=OFF), which knows them only by the bundles that
// another build has compiled into the cache.

#include <nlohmann/json.hpp>

#include "client/programs.h"

namespace cryolite {

/// Whether this build has the compiler's half.
bool has_compiler();

/// The id of the program that compiled the newest bundle of `app`. Bundles for this `machine` are preferred, because
/// only they can run here. Errors: the cache has no bundle of the app.
std::string compiled_program_id(const std::string &app, const std::string &machine, const Cache &cache);

/// Says that the cache has no bundle of these `parts` of a key, how the nearest one differs, and how to get it.
[[noreturn]] void fail_not_compiled(const std::string &app, const nlohmann::json &parts, const Cache &cache);

}  // namespace cryolite
