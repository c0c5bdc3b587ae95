#pragma once
// Files, so that every failure says which file, why and what to do, and nothing is ever half
// written.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cryolite {

namespace fs = std::filesystem;

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string_view as_text(Bytes bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// The whole file; an empty one gives an empty string.
/// Errors: missing, unreadable, a folder, a device, a pipe (which might never end).
std::string read_file(const fs::path &path);

/// Replaces `path` by `bytes`, whole or not at all: a temporary file in the same folder is written,
/// synced and renamed. A failure (full disk, no permission) removes the temporary file and leaves
/// the old content.
void write_file_atomic(const fs::path &path, std::string_view bytes, unsigned mode = 0644);

/// A digest fed piece by piece.
class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(Sha256 &&) noexcept;
    Sha256 &operator=(Sha256 &&) noexcept;

    void update(Bytes bytes);
    /// 64 lower-case hexadecimal digits; once, at the end.
    std::string hex();

private:
    struct State;
    std::unique_ptr<State> state_;
};

std::string sha256_hex(Bytes bytes);
inline std::string sha256_hex(std::string_view text) { return sha256_hex(as_bytes(text)); }
std::string sha256_file(const fs::path &path);

/// Creates `path` and its missing parents with `mode`, whatever the umask allows; parents that
/// exist stay as they are. Errors: something that is no folder is in the way, no permission.
void make_private_dirs(const fs::path &path, unsigned mode = 0700);

/// Writes one new file front to back. A file that was not finished is removed.
class FileWriter {
public:
    struct Options {
        uint64_t expected =
            0;  ///< bytes to come, when known: a full disk then says how many it lacks
        unsigned mode = 0644;    ///< what the umask leaves of it
        bool exclusive = false;  ///< refuse a file that exists, instead of emptying it
        fs::path shown = {};     ///< the name in messages, where `path` is temporary
    };
    explicit FileWriter(fs::path path) : FileWriter(std::move(path), Options()) {}
    FileWriter(fs::path path, Options options);
    ~FileWriter();
    FileWriter(FileWriter &&) noexcept;
    FileWriter(const FileWriter &) = delete;

    void write(Bytes bytes);
    /// Syncs to the disk and closes: only now is the file there to stay.
    void finish();

    uint64_t written() const { return written_; }
    const fs::path &path() const { return path_; }

private:
    fs::path path_;
    Options options_;
    int descriptor_ = -1;
    uint64_t written_ = 0;
};

/// A read-only view of a whole regular file. A file that another program cuts short while it is
/// mapped would end this process with SIGBUS, as with any mapping: publish files by rename.
class MappedFile {
public:
    MappedFile() = default;
    explicit MappedFile(fs::path path);
    ~MappedFile();
    MappedFile(MappedFile &&other) noexcept;
    MappedFile &operator=(MappedFile &&other) noexcept;

    Bytes bytes() const { return {data_, size_}; }
    size_t size() const { return size_; }
    const fs::path &path() const { return path_; }

private:
    fs::path path_;
    const std::byte *data_ = nullptr;
    size_t size_ = 0;
};

/// A new folder beside the place where it will be published; removed, with its content, unless it
/// was.
class TemporaryFolder {
public:
    /// Makes `.tmp-NAME-RANDOM` in the folder of `final_path`, whose missing parents are created.
    explicit TemporaryFolder(fs::path final_path, unsigned mode = 0755);
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;

    const fs::path &path() const { return path_; }

    enum class IfExists { keep, replace };
    /// Syncs every file and renames to the final path. False when a folder was there already and is
    /// kept (another process was first): this one is then removed.
    bool publish(IfExists if_exists = IfExists::keep);

private:
    fs::path path_, final_;
};

/// Syncs `folder` and all below it, renames it to `final_path` in the same parent and syncs the
/// parent. False when something is at `final_path` already and is to be kept. A folder that is
/// replaced is exchanged in one step where the file system can.
bool publish_folder(const fs::path &folder, const fs::path &final_path,
                    TemporaryFolder::IfExists if_exists = TemporaryFolder::IfExists::keep);

/// Removes a folder so that a kill half-way leaves only a `.tmp-` name: renamed first, then
/// removed.
void remove_folder(const fs::path &folder);

/// Removes what earlier, killed processes left: entries of `folder` named `.tmp-...`; how many.
/// Only for a folder with one writer: a run, not the shared cache.
int remove_leftovers(const fs::path &folder);

/// Waits until `path`, a file or a folder, is on the disk.
void sync_path(const fs::path &path);

/// Throws an Error: what could not be done with which path, why (an errno), and what helps.
/// `needed`: bytes that were still to be written, for a full disk.
[[noreturn]] void fail_file(std::string_view verb, const fs::path &path, int error,
                            uint64_t needed = 0);

/// `.tmp-NAME-RANDOM` beside `path`: where its content is prepared.
fs::path temporary_beside(const fs::path &path);

}  // namespace cryolite
