#pragma once
// Which folders are those of runs.

#include <filesystem>
#include <string>

#include "client/programs.h"

namespace cryolite {

namespace fs = std::filesystem;

/// Whether this is the folder of a run: its config.toml is one that a run wrote, or there are checkpoints beside it.
bool is_run(const fs::path &folder);

/// The run in this folder whose name comes first; empty: there is none that can be read.
fs::path first_run(const fs::path &folder);

/// Throws UsageError where there is no folder of this name.
void require_folder(const fs::path &folder);

/// Throws UsageError where this is not the folder of a run: names the run that the folder belongs to, as that of a
/// checkpoint does, or one of those in it.
void require_run(const fs::path &folder);

/// The program `app` that the config.toml of a run names. Errors: as `find_program`; its file is not there any more
/// (says how to go on), unless this build has no compiler and needs none.
Program program_of_run(const fs::path &run, const std::string &app, const Cache &cache);

/// The words that resume the run in this folder, for a shell, as this command was called: "./cryolite train ...".
std::string resume_command(const fs::path &run);

/// The words that write text from the run in this folder, likewise.
std::string sample_command(const fs::path &run);

}  // namespace cryolite
