#include "apps/cryolite/run/run_check.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/run_folder.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// The mistake that `read` finds; empty: none. A file that is there and cannot be read is an error, no mistake.
std::string mistake_of(const std::function<void()> &read) {
    try {
        read();
    } catch (const FileError &e) {
        if (!e.missing()) throw;
        return e.what();
    } catch (const Error &e) {
        return e.what();
    }
    return "";
}

/// Whether another process holds the folder: then files may be half written.
bool in_use(const fs::path &folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail_file("open", folder, errno);
    const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(descriptor);
    return held;
}

/// Names that only a process which was killed leaves.
std::vector<std::string> leftovers(const fs::path &folder, const std::string &shown_as) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (const std::string name = entry->path().filename().string(); name.starts_with(".tmp-"))
            found.push_back(fmt::format("{}{} is half written: its process was killed", shown_as, name));
    if (error && (error != std::errc::no_such_file_or_directory || is_there(folder)))
        fail_file("read the folder", folder, error.value());
    return found;
}

/// What is wrong with metrics.jsonl. It has to have steps 1 ... `last`, each once and in order; later ones may follow.
std::string metrics_mistake(const fs::path &file, uint64_t last) {
    if (!is_there(file)) return "metrics.jsonl is missing";
    const std::string text = read_file(file);
    uint64_t next = 1;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        const auto j = nlohmann::json::parse(line, nullptr, false);
        if (!j.is_object()) return fmt::format("metrics.jsonl: not JSON: {}", shown(line));
        if (j.value("event", "") != "step" || !j.contains("step")) continue;
        if (next <= last && j["step"] != next)
            return fmt::format("metrics.jsonl has step {} where step {} belongs", j["step"].dump(), next);
        ++next;
    }
    if (next <= last)
        return fmt::format("metrics.jsonl ends with step {}, before that of the newest checkpoint, {}", next - 1, last);
    return "";
}

}  // namespace

RunCheck check_run(const fs::path &folder) {
    RunCheck check;
    const auto add = [&](const std::string &mistake) {
        if (!mistake.empty()) check.mistakes.push_back(mistake);
    };
    const std::vector<Checkpoint> all = list_checkpoints(folder);
    check.checkpoints = all.size();
    if (!is_run(folder)) {
        add(all.empty() ? "it is not the folder of a run: it has no config.toml that a run wrote"
                        : "config.toml is missing");
        if (all.empty()) return check;
    } else {
        add(mistake_of([&] { read_config(folder / "config.toml", Origin::resumed); }));
    }
    if (in_use(folder)) {
        add("a process is training in it: check it again when that has ended");
        return check;
    }
    for (const std::string &left : leftovers(folder, "")) add(left);
    for (const std::string &left : leftovers(folder / "checkpoints", "checkpoints/")) add(left);
    for (const Checkpoint &c : all) {
        const std::string why = verify_checkpoint(c.path);
        if (why.empty() && !check.newest) check.newest = c;
        if (!why.empty()) add(fmt::format("checkpoints/{}: {}", c.path.filename().string(), why));
    }
    if (all.empty()) add("it has no checkpoint yet");
    if (const fs::path vocabulary = folder / "vocab.json"; is_there(vocabulary))
        add(mistake_of([&] { load_tokenizer(vocabulary); }));
    if (!check.newest) return check;
    for (const char *name : results_of(*check.newest)) add(verify_copy(folder / name, *check.newest));
    add(metrics_mistake(folder / "metrics.jsonl", check.newest->step));
    return check;
}

}  // namespace cryolite
