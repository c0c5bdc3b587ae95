#pragma once
// Checkpoint folders: RUN/checkpoints/step-000123/ with a manifest of the size and SHA-256 of each file. A checkpoint
// is written whole or not at all; later damage is noticed and skipped. The trainer decides what the files hold.

#include "runtime/io/files.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cryolite {

struct CheckpointFile {
    std::string name;  ///< "model.safetensors"
    /// Writes the file at this path, waits until it is on the disk and returns its SHA-256. Where it returns an empty
    /// string, the file is read again for the digest.
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
/// Errors: a file is there but cannot be read. It need not be damaged then.
std::string verify_checkpoint(const fs::path &folder);

/// What is wrong with `file` as a copy of the checkpoint's file of the same name; empty when it has the same bytes.
/// Errors: as `verify_checkpoint`; a damaged manifest.
std::string verify_copy(const fs::path &file, const Checkpoint &checkpoint);

/// The newest checkpoint that verifies; `skipped` is called with each newer one and why it does not verify. Nothing
/// when there is none. Errors: as `verify_checkpoint`; an older one is never returned because a newer one could not be
/// read this time.
std::optional<Checkpoint>
newest_good_checkpoint(const fs::path &run,
                       const std::function<void(const Checkpoint &, const std::string &why)> &skipped);

/// Called after `latest` was published: removes older checkpoints so that `keep` remain, including `latest`, which
/// always stays. Newer ones, left from before a resume, do not count and stay until their step comes again. Nor do
/// those count that are `damaged`, unreadable or of wrong sizes: they push out no good one.
void prune_checkpoints(const fs::path &run, const Checkpoint &latest, int keep, const std::set<uint64_t> &damaged = {});

/// Removes the temporary folders of killed writers and returns how many. Only the run's one writer may call it.
int remove_checkpoint_leftovers(const fs::path &run);

}  // namespace cryolite
