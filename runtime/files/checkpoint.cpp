#include "runtime/files/checkpoint.h"

#include "runtime/io/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace cryolite {

namespace {

constexpr const char *manifest_file = "manifest.json";
constexpr const char *manifest_format = "cryolite checkpoint 1";
constexpr std::string_view prefix = "step-";

fs::path folder_of(const fs::path &run) { return run / "checkpoints"; }

/// 123 from "step-000123"; nothing for other names.
std::optional<uint64_t> step_of(const std::string &name) {
    if (!name.starts_with(prefix)) return std::nullopt;
    uint64_t step = 0;
    const char *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
    if (error != std::errc() || stop != end) return std::nullopt;
    return step;
}

/// A file of a manifest lies in its folder: no path, no parent.
bool is_plain_name(const std::string &name) {
    return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos && name != manifest_file;
}

/// How far verifying goes: comparing sizes costs nothing, comparing digests reads every byte.
enum class Depth { sizes, digests };

/// `written`: the file's entry in the manifest.
std::string file_mistake(const fs::path &path, const nlohmann::json &written, Depth depth) {
    const std::string name = path.filename().string();
    const auto size = written.at("size").get<uint64_t>();
    const uint64_t found = InputFile(path).size();
    if (found != size) return fmt::format("{} has {} bytes, {} were written", name, found, size);
    if (depth == Depth::digests && sha256_file(path) != written.at("sha256").get<std::string>())
        return fmt::format("{} has changed since it was written", name);
    return "";
}

nlohmann::json read_manifest(const fs::path &folder) {
    return nlohmann::json::parse(read_file(folder / manifest_file));
}

std::string manifest_mistake(const fs::path &folder, Depth depth) {
    const nlohmann::json manifest = read_manifest(folder);
    if (manifest.at("format") != manifest_format)
        return fmt::format("{} is not of the format \"{}\"", manifest_file, manifest_format);
    const auto step = step_of(folder.filename().string());
    if (step && manifest.at("step").get<uint64_t>() != *step)
        return fmt::format("{} is of step {}", manifest_file, manifest.at("step").get<uint64_t>());
    if (manifest.at("files").empty()) return fmt::format("{} names no files", manifest_file);
    for (const auto &[name, file] : manifest.at("files").items()) {
        if (!is_plain_name(name)) return fmt::format("{} names the file {}", manifest_file, shown(name));
        std::string mistake = file_mistake(folder / name, file, depth);
        if (!mistake.empty()) return mistake;
    }
    return "";
}

std::string mistake_of(const fs::path &folder, Depth depth) {
    try {
        return manifest_mistake(folder, depth);
    } catch (const nlohmann::json::exception &e) {
        return fmt::format("{} is damaged: {}", manifest_file, e.what());
    } catch (const FileError &e) {
        if (!e.missing()) throw;
        return e.what();
    } catch (const Error &e) {  // a folder or a pipe is in its place
        return e.what();
    }
}

}  // namespace

fs::path checkpoint_path(const fs::path &run, uint64_t step) {
    return folder_of(run) / fmt::format("{}{:06}", prefix, step);
}

Checkpoint write_checkpoint(const fs::path &run, uint64_t step, const std::vector<CheckpointFile> &files) {
    const Checkpoint checkpoint{checkpoint_path(run, step), step};
    TemporaryFolder folder(checkpoint.path);
    nlohmann::json entries = nlohmann::json::object();
    for (const CheckpointFile &file : files) {
        if (!is_plain_name(file.name) || entries.contains(file.name))
            fail("a checkpoint cannot have a file named {}, or has it already", shown(file.name));
        const fs::path path = folder.path() / file.name;
        std::string digest = file.write(path);
        if (digest.empty()) digest = sha256_file(path);
        entries[file.name] = {{"size", InputFile(path).size()}, {"sha256", digest}};
    }
    const nlohmann::json manifest = {{"format", manifest_format}, {"step", step}, {"files", entries}};
    write_file_atomic(folder.path() / manifest_file, manifest.dump(2) + "\n", 0644, FolderSync::later);
    folder.publish(TemporaryFolder::IfExists::replace, Written::synced);
    return checkpoint;
}

std::vector<Checkpoint> list_checkpoints(const fs::path &run) {
    std::vector<Checkpoint> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder_of(run), error), end; !error && entry != end; entry.increment(error))
        if (const auto step = step_of(entry->path().filename().string())) found.push_back({entry->path(), *step});
    // A link to a disk that is not mounted today does not mean that the run has no checkpoints.
    if (error && (error != std::errc::no_such_file_or_directory || is_there(folder_of(run))))
        fail_file("list checkpoints in", folder_of(run), error.value());
    std::sort(found.begin(), found.end(), [](const Checkpoint &a, const Checkpoint &b) { return a.step > b.step; });
    return found;
}

std::string verify_checkpoint(const fs::path &folder) { return mistake_of(folder, Depth::digests); }

std::string verify_copy(const fs::path &file, const Checkpoint &checkpoint) {
    const std::string name = file.filename().string();
    try {
        const nlohmann::json written = read_manifest(checkpoint.path).at("files").at(name);
        if (!is_there(file)) return fmt::format("{} is missing", name);
        if (file_mistake(file, written, Depth::digests).empty()) return "";
        return fmt::format("{} is not that of {}", name, checkpoint.path.filename().string());
    } catch (const nlohmann::json::exception &e) {
        fail("{} is damaged: {}", (checkpoint.path / manifest_file).string(), e.what());
    }
}

std::optional<Checkpoint>
newest_good_checkpoint(const fs::path &run,
                       const std::function<void(const Checkpoint &, const std::string &why)> &skipped) {
    for (const Checkpoint &checkpoint : list_checkpoints(run)) {
        const std::string why = verify_checkpoint(checkpoint.path);
        if (why.empty()) return checkpoint;
        if (skipped) skipped(checkpoint, why);
    }
    return std::nullopt;
}

namespace {

bool has_its_sizes(const Checkpoint &checkpoint) {
    try {
        return mistake_of(checkpoint.path, Depth::sizes).empty();
    } catch (const FileError &) {
        return false;
    }
}

}  // namespace

void prune_checkpoints(const fs::path &run, const Checkpoint &latest, int keep, const std::set<uint64_t> &damaged) {
    int kept = 0;
    for (const Checkpoint &checkpoint : list_checkpoints(run)) {
        if (checkpoint.step > latest.step) continue;
        if (checkpoint.step != latest.step && kept >= keep)
            remove_folder(checkpoint.path);
        else if (!damaged.count(checkpoint.step) && has_its_sizes(checkpoint))
            ++kept;
    }
}

int remove_checkpoint_leftovers(const fs::path &run) { return remove_leftovers(folder_of(run)); }

}  // namespace cryolite
