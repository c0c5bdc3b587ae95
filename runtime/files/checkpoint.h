#pragma once
// Checkpoint folders: RUN/checkpoints/step-000123/ with a manifest of the size and SHA-256 of each
// file. One is written whole or not at all; what is damaged later is noticed and skipped. What the
// files hold is the trainer's affair.

#include "runtime/io/files.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cryolite {

struct CheckpointFile {
    std::string name;  ///< "model.safetensors"
    /// Writes the file at this path, waits until it is on the disk and returns its SHA-256; an empty string: it is read
    /// again for it.
    std::function<std::string(const fs::path &)> write;
};

struct Checkpoint {
    fs::path path;
    uint64_t step = 0;
};

/// Writes all files in a temporary folder, then the manifest, and renames the folder;
/// one of the same step that was there is replaced. On a failure no trace is left and older
/// checkpoints stay.
Checkpoint write_checkpoint(const fs::path &run, uint64_t step, const std::vector<CheckpointFile> &files);

/// RUN/checkpoints/step-000123
fs::path checkpoint_path(const fs::path &run, uint64_t step);

/// All that are there, newest first, verified or not; none when `run` has none.
std::vector<Checkpoint> list_checkpoints(const fs::path &run);

/// Empty when the manifest and every file of it are as they were written; else what is wrong: missing or changed.
/// Errors: a file that is there cannot be read. That says nothing of its bytes.
std::string verify_checkpoint(const fs::path &folder);

/// What is wrong with `file` as a copy of the checkpoint's file of the same name; empty when it has the same bytes.
/// Errors: as `verify_checkpoint`; a damaged manifest.
std::string verify_copy(const fs::path &file, const Checkpoint &checkpoint);

/// The newest checkpoint that verifies; `skipped` hears of each newer one and why it does not.
/// Nothing when there is none. Errors: as `verify_checkpoint`; an older one is never taken for a newer one that could
/// not be read this time.
std::optional<Checkpoint>
newest_good_checkpoint(const fs::path &run,
                       const std::function<void(const Checkpoint &, const std::string &why)> &skipped);

/// After `latest` was published: removes older ones, so that `keep` remain with it (at least
/// itself). Newer ones, left from before a resume, do not count and stay until their step comes
/// again. Nor do those that are known to be `damaged`, or whose files have not their sizes or cannot be read: they
/// push out none that is good.
void prune_checkpoints(const fs::path &run, const Checkpoint &latest, int keep, const std::set<uint64_t> &damaged = {});

/// Removes the temporary folders of killed writers; how many. Only the run's one writer may call
/// it.
int remove_checkpoint_leftovers(const fs::path &run);

}  // namespace cryolite
