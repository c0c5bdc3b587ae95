#pragma once
// Operations on files: every failure says which file, why and what to do, and nothing is ever half written.

#include "runtime/io/error.h"

#include <cerrno>
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

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char *>(bytes.data()), bytes.size()}; }

/// The system refuses an operation on a file; `number` is its errno. It lets a reader tell a missing file, which it may
/// know how to handle, from one that could not be read this time.
struct FileError : Error {
    FileError(const std::string &message, int number) : Error(message), number(number) {}
    int number;
    bool missing() const { return number == ENOENT || number == ENOTDIR; }
};

/// Whether something is at `path`, even a link to nothing. Errors: it cannot be known, as without permission.
bool is_there(const fs::path &path);

/// The whole file; an empty one gives an empty string.
/// Errors: missing, unreadable, a folder, a device, a pipe (which might never end).
std::string read_file(const fs::path &path);

/// Whether a new name in a folder is on the disk at once, or when the caller syncs the folder, once for several names.
enum class FolderSync { now, later };

/// Replaces `path` by `bytes`, whole or not at all: a temporary file in the same folder is written,
/// synced and renamed. A failure (full disk, no permission) removes the temporary file and leaves
/// the old content.
void write_file_atomic(const fs::path &path, std::string_view bytes, unsigned mode = 0644,
                       FolderSync folder = FolderSync::now);

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

/// Creates `path` and its missing parents with `mode`, less what the umask takes away; parents that exist stay as they
/// are. Errors: something that is no folder is in the way, no permission.
void make_private_dirs(const fs::path &path, unsigned mode = 0700);

/// Writes one new file front to back. A file that was not finished is removed.
class FileWriter {
public:
    struct Options {
        uint64_t expected = 0;   ///< bytes to come, when known: a full disk then says how many it lacks
        unsigned mode = 0644;    ///< permissions, before the umask
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

/// A regular file that is read where it is asked for. If it is cut short or changed meanwhile, that is an error; with a
/// mapping it could end the process.
class InputFile {
public:
    explicit InputFile(fs::path path);
    ~InputFile();
    InputFile(const InputFile &) = delete;

    const fs::path &path() const { return path_; }
    uint64_t size() const { return size_; }  ///< when it was opened
    /// Fills `to` from byte `offset` on. Errors: fewer bytes are there, or they cannot be read.
    void read(uint64_t offset, std::span<std::byte> to) const;
    /// Throws where the file's size or modification time has changed since it was opened.
    void check_unchanged() const;

private:
    fs::path path_;
    int descriptor_ = -1;
    uint64_t size_ = 0;
    int64_t changed_ = 0;  ///< nanoseconds since 1970
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

/// Whether the files of a folder are on the disk already (synced), or were only given to the system (plainly).
enum class Written { plainly, synced };

/// A new folder beside the place where it will be published; removed with its content, unless it was published.
class TemporaryFolder {
public:
    /// Makes `.tmp-NAME-RANDOM` in the folder of `final_path`, whose missing parents are created.
    explicit TemporaryFolder(fs::path final_path, unsigned mode = 0755);
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;

    const fs::path &path() const { return path_; }

    enum class IfExists { keep, replace };
    /// Syncs every file, unless whoever wrote them did, and renames to the final path. False when a folder was there
    /// already and is kept (another process was first): this one is then removed.
    bool publish(IfExists if_exists = IfExists::keep, Written files = Written::plainly);

private:
    fs::path path_, final_;
};

/// Removes a folder so that a kill half-way leaves only a `.tmp-` name: renamed first, then
/// removed.
void remove_folder(const fs::path &folder);

/// Removes what earlier, killed processes left, the entries of `folder` named `.tmp-...`, and returns how many. Only
/// for a folder with one writer: a run, not the shared cache.
int remove_leftovers(const fs::path &folder);

/// Waits until `path`, a file or a folder, is on the disk.
void sync_path(const fs::path &path);

/// Throws a FileError: what could not be done with which path, why (an errno), and what helps.
/// `needed`: bytes that were still to be written, for a full disk.
[[noreturn]] void fail_file(std::string_view verb, const fs::path &path, int error, uint64_t needed = 0);

/// The folder that `path` is in: "." of a bare name.
fs::path parent_of(const fs::path &path);

/// `.tmp-NAME-RANDOM` beside `path`: where its content is prepared.
fs::path temporary_beside(const fs::path &path);

}  // namespace cryolite
