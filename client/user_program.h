#pragma once
// A generator program of the user's own: one .cpp, compiled against this checkout's headers.

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/cache/cache.h"

namespace cryolite {

/// The executable made of `source`, from the cache, as it was checked, or compiled now. It is compiled again when the
/// source, a header that it includes, the compiler or Cryolite's own library has changed.
/// Errors: no such file; the compiler's own message with file and line; its time limit.
std::shared_ptr<const OpenFile> user_program(const fs::path &source, const Cache &cache);

/// The folder of programs, dialects and data: the build folder, or lib/cryolite of an installation. The command is in
/// its bin/.
fs::path build_folder();

/// How this build compiles a generator program (cmake/user_program.cmake writes it), its paths absolute.
nlohmann::json build_flags();

/// Seconds that a user's program or its compiler may run without a sign of life: 120, or the value
/// of CRYOLITE_TIME_LIMIT.
double program_time_limit();

}  // namespace cryolite
