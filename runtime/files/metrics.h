#pragma once
// What a run measured, for people and programs: metrics.jsonl (a JSON object a line) and
// TensorBoard's event files.

#include "runtime/io/files.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace cryolite {

/// A file that grows at its end, each piece flushed to the system at once (a kill loses nothing
/// written). A piece that cannot be written leaves no part of itself.
class AppendFile {
public:
    /// Creates the file when it is missing.
    explicit AppendFile(fs::path path);
    ~AppendFile();
    AppendFile(AppendFile &&other) noexcept;
    AppendFile(const AppendFile &) = delete;

    void append(Bytes bytes);
    /// Waits until all of it is on the disk: a loss of power loses nothing either.
    void sync();

private:
    fs::path path_;
    int descriptor_ = -1;
    int64_t size_ = 0;
};

/// metrics.jsonl.
class MetricsWriter {
public:
    /// Begins an empty file.
    explicit MetricsWriter(const fs::path &path);
    /// Goes on with what `path` has up to `step`: lines of later steps, and a last line cut off by
    /// a kill, are removed. A line without a "step" belongs to the one before it.
    MetricsWriter(const fs::path &path, uint64_t resumed_step);

    /// One JSON object, without a line break.
    void write(std::string_view object);
    /// Waits until all lines are on the disk. The name of a new file is on it only once its folder is synced.
    void sync() { file_.sync(); }

private:
    AppendFile file_;
};

/// Scalars for TensorBoard: `tensorboard --logdir FOLDER`. The format is TFRecord (a length, data,
/// both with a masked CRC-32C) of tensorflow.Event messages.
class TensorBoardWriter {
public:
    /// A new event file in `folder`. On a resume, TensorBoard drops what older files have from
    /// `resumed_step` + 1 on.
    explicit TensorBoardWriter(const fs::path &folder, uint64_t resumed_step = 0);

    void scalar(std::string_view tag, uint64_t step, double value);

private:
    void record(std::string_view event);

    AppendFile file_;
};

/// CRC-32C (Castagnoli): crc32c("123456789") = 0xe3069283.
uint32_t crc32c(std::string_view data);

}  // namespace cryolite
