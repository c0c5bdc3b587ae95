#include "runtime/io/files.h"

#include "runtime/io/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

namespace cryolite {

fs::path parent_of(const fs::path &path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

namespace {

/// What a person can do about an errno, or nothing.
std::string advice(const fs::path &path, int error, uint64_t needed) {
    std::error_code ignored;
    const fs::path folder = parent_of(path);
    switch (error) {
    case EACCES:
    case EPERM:
        return fmt::format("; give this user permission for it and for its folder {}, or name another place",
                           folder.string());
    case EROFS:
        return "; name a place on a file system that can be written";
    case ENOSPC:
    case EDQUOT: {
        const fs::space_info space = fs::space(folder, ignored);
        const std::string lacking = needed ? human_bytes(needed) + " more needed" : "more needed";
        return fmt::format("; {}, {} free there: make room or name another place", lacking,
                           ignored ? "?" : human_bytes(space.available));
    }
    case EFBIG:
        return "; the file is larger than the limit of this process (ulimit -f) or file system";
    case ENOENT:
        return path.filename().empty() || fs::exists(folder, ignored)
                   ? "; check the spelling"
                   : "; its folder does not exist: " + folder.string();
    case EISDIR:
        return "; name a file";
    case ENOTDIR:
        return "; a part of the path is a file, not a folder";
    default:
        return "";
    }
}

/// Opens a regular file for reading; throws for anything else.
int open_for_reading(const fs::path &path, struct stat &status) {
    // O_NONBLOCK: opening a named pipe nobody writes to must not hang.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) fail_file("read", path, errno);
    const char *kind = nullptr;
    if (::fstat(descriptor, &status) != 0) {
        const int error = errno;
        ::close(descriptor);
        fail_file("read", path, error);
    } else if (S_ISDIR(status.st_mode)) {
        kind = "it is a folder; name a file";
    } else if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) {
        kind = "it is a device; name a file";
    } else if (!S_ISREG(status.st_mode)) {
        kind = "it is a pipe or socket; a regular file is needed here: store it in one first";
    }
    if (kind) {
        ::close(descriptor);
        fail("cannot read {}: {}", path.string(), kind);
    }
    return descriptor;
}

}  // namespace

void fail_file(std::string_view verb, const fs::path &path, int error, uint64_t needed) {
    throw FileError(fmt::format("cannot {} {}: {}{}", verb, path.string(), std::generic_category().message(error),
                                advice(path, error, needed)),
                    error);
}

bool is_there(const fs::path &path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) return true;
    if (errno != ENOENT && errno != ENOTDIR) fail_file("examine", path, errno);
    return false;
}

fs::path temporary_beside(const fs::path &path) {
    static thread_local std::random_device random;
    const std::string name = path.filename().string().substr(0, 100);  // a name has 255 bytes at most
    return parent_of(path) / fmt::format(".tmp-{}-{:08x}", name, random());
}

std::string read_file(const fs::path &path) {
    struct stat status {};
    const int descriptor = open_for_reading(path, status);
    std::string bytes;
    size_t filled = 0;
    // The size is a hint only: files of /proc have none, and a file may grow.
    bytes.resize(static_cast<size_t>(status.st_size) + 1);
    for (;;) {
        if (filled == bytes.size()) bytes.resize(bytes.size() * 2);
        const ssize_t got = ::read(descriptor, bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            const int error = errno;
            ::close(descriptor);
            if (got < 0) fail_file("read", path, error);
            break;
        }
        filled += static_cast<size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

void write_file_atomic(const fs::path &path, std::string_view bytes, unsigned mode, FolderSync folder) {
    const fs::path temporary = temporary_beside(path);
    FileWriter writer(temporary, {.expected = bytes.size(), .mode = mode, .exclusive = true, .shown = path});
    writer.write(as_bytes(bytes));
    writer.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const int error = errno;
        ::unlink(temporary.c_str());
        fail_file("replace", path, error);
    }
    if (folder == FolderSync::now) sync_path(parent_of(path));
}

FileWriter::FileWriter(fs::path path, Options options) : path_(std::move(path)), options_(std::move(options)) {
    if (options_.shown.empty()) options_.shown = path_;
    const int how = options_.exclusive ? O_EXCL : O_TRUNC;
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, options_.mode);
    if (descriptor_ < 0) fail_file("write", options_.shown, errno);
}

FileWriter::FileWriter(FileWriter &&other) noexcept
    : path_(std::move(other.path_)), options_(std::move(other.options_)),
      descriptor_(std::exchange(other.descriptor_, -1)), written_(other.written_) {}

FileWriter::~FileWriter() {
    if (descriptor_ < 0) return;
    struct stat status {};
    const bool ours = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    ::close(descriptor_);
    if (ours) ::unlink(path_.c_str());  // never a device or pipe that was named
}

void FileWriter::write(Bytes bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(descriptor_, bytes.data(), std::min<size_t>(bytes.size(), 1 << 30));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            const uint64_t announced = options_.expected > written_ ? options_.expected - written_ : 0;
            fail_file("write", options_.shown, done < 0 ? errno : ENOSPC, std::max<uint64_t>(bytes.size(), announced));
        }
        written_ += static_cast<uint64_t>(done);
        bytes = bytes.subspan(static_cast<size_t>(done));
    }
}

void FileWriter::finish() {
    // A pipe or device cannot be synced (EINVAL), and need not be.
    if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_file("write", options_.shown, errno);
    if (::close(std::exchange(descriptor_, -1)) != 0) {
        const int error = errno;
        ::unlink(path_.c_str());
        fail_file("write", options_.shown, error);
    }
}

namespace {

int64_t nanoseconds(const timespec &time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
    struct stat status {};
    descriptor_ = open_for_reading(path_, status);
    size_ = static_cast<uint64_t>(status.st_size);
    changed_ = nanoseconds(status.st_mtim);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
        const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail_file("read", path_, errno);
        if (got == 0)
            fail("{}: it had {} bytes and ends at byte {} now: it was cut short while it was in use", path_.string(),
                 size_, offset);
        offset += static_cast<uint64_t>(got);
        to = to.subspan(static_cast<size_t>(got));
    }
}

void InputFile::check_unchanged() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail_file("examine", path_, errno);
    if (static_cast<uint64_t>(status.st_size) != size_)
        fail("{}: it had {} bytes and has {} now: it was changed while it was in use", path_.string(), size_,
             status.st_size);
    if (nanoseconds(status.st_mtim) != changed_) fail("{}: it was written to while it was in use", path_.string());
}

MappedFile::MappedFile(fs::path path) : path_(std::move(path)) {
    struct stat status {};
    const int descriptor = open_for_reading(path_, status);
    size_ = static_cast<size_t>(status.st_size);
    void *view = size_ ? ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
    const int error = errno;
    ::close(descriptor);
    if (view == MAP_FAILED) {
        size_ = 0;
        fail_file("map", path_, error);
    }
    data_ = static_cast<const std::byte *>(view);
}

MappedFile::MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte *>(data_), size_);
}

}  // namespace cryolite
