#include "apps/cryolite/run/find_run.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "apps/cryolite/session/settings.h"
#include "client/without_compiler.h"
#include "runtime/files/checkpoint.h"
#include "runtime/io/error.h"
#include "runtime/io/files.h"

namespace cryolite {

bool is_run(const fs::path &folder) {
    const fs::path config = folder / "config.toml";
    return is_there(config) && (read_file(config).starts_with(config_heading) || !list_checkpoints(folder).empty());
}

namespace {

/// Whether this is the folder of a run, where that can be known.
bool may_be_run(const fs::path &folder) {
    try {
        return is_run(folder);
    } catch (const Error &) {
        return false;
    }
}

/// The run that this file or folder is a part of, as seen from the working folder; empty: there is none.
fs::path run_of(const fs::path &part) {
    fs::path whole = fs::absolute(part / "").lexically_normal().parent_path();
    for (int level = 0; level < 3; level++) {  // RUN/checkpoints/step-N/model.safetensors
        whole = whole.parent_path();
        if (may_be_run(whole)) return whole.lexically_proximate(fs::current_path());
    }
    return {};
}

/// A word for a shell: in quotes where it has anything but letters, digits and the marks of usual paths.
std::string shell_word(const std::string &word) {
    constexpr std::string_view marks = "_-./+,:@%";
    const auto usual = [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || marks.find(c) < marks.size();
    };
    if (!word.empty() && std::ranges::all_of(word, usual)) return word;
    std::string quoted = "'";
    for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

/// How this command was called; the script `cryolite` says how it was.
std::string own_command() {
    const char *script = std::getenv("CRYOLITE_COMMAND");
    return shell_word(script && *script ? script : program_invocation_name);
}

}  // namespace

std::string resume_command(const fs::path &run) {
    return fmt::format("{} train --out {} --resume", own_command(), shell_word(run.string()));
}

std::string sample_command(const fs::path &run) {
    return fmt::format("{} sample {}", own_command(), shell_word(run.string()));
}

fs::path first_run(const fs::path &folder) {
    fs::path first;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if ((first.empty() || entry->path() < first) && may_be_run(entry->path())) first = entry->path();
    return first;
}

void require_folder(const fs::path &folder) {
    std::error_code error;
    if (!is_there(folder)) fail_usage("there is no run in {}: check the spelling", folder.string());
    if (!fs::exists(folder, error) || fs::is_directory(folder, error)) return;
    const fs::path run = run_of(folder);
    fail_usage("{} is a file, expected the folder of a run{}{}", folder.string(), run.empty() ? "" : ", such as ",
               run.string());
}

void require_run(const fs::path &folder) {
    std::error_code error;
    if (fs::status(folder / "config.toml", error).type() == fs::file_type::none)
        fail_usage("cannot read the run in {}: {}", folder.string(), error.message());
    require_folder(folder);
    if (is_run(folder)) return;
    if (const fs::path run = run_of(folder); !run.empty())
        fail_usage("{} is a part of a run: name the run's folder, {}", folder.string(), run.string());
    if (const fs::path run = first_run(folder); !run.empty())
        fail_usage("{} is not the folder of a run: name one of those in it, such as {} ({} runs ls {})",
                   folder.string(), run.string(), own_command(), shell_word(folder.string()));
    fail_usage("{} is not the folder of a run: it has no config.toml of cryolite train", folder.string());
}

Program program_of_run(const fs::path &run, const std::string &app, const Cache &cache) {
    std::error_code error;
    if (has_compiler() && is_path(app) && !fs::exists(app, error) && !error)
        fail_usage(
            "{} is a run of the program {}, which is not there any more: put it back, name its new path (cryolite "
            "train PATH --out {} --resume), or write that into {}, as app = \"PATH\"",
            run.string(), app, shell_word(run.string()), (run / "config.toml").string());
    return find_program(app, cache);
}

}  // namespace cryolite
