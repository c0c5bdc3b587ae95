#include "runtime/io/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

Descriptor::~Descriptor() {
    if (number_ >= 0) ::close(number_);
}

Descriptor::Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}

std::shared_ptr<const OpenFile> OpenFile::at(const fs::path &path) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0) fail_file("read", path, errno);
    if (!S_ISREG(status.st_mode)) fail("cannot read {}: it is no regular file", path.string());
    return std::make_shared<const OpenFile>(path, std::move(file));
}

uint64_t OpenFile::size() const {
    struct stat status {};
    if (::fstat(descriptor(), &status) != 0) fail_file("examine", path_, errno);
    return static_cast<uint64_t>(status.st_size);
}

template <typename Take> void OpenFile::read_to(const Take &take) const {
    std::vector<std::byte> block(1 << 16);
    for (off_t at = 0;;) {
        const ssize_t n = ::pread(descriptor(), block.data(), block.size(), at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_file("read", path_, errno);
        if (n == 0) return;
        take(Bytes(block).first(static_cast<size_t>(n)));
        at += n;
    }
}

std::string OpenFile::read() const {
    std::string all;
    read_to([&](Bytes some) { all += as_text(some); });
    return all;
}

std::string OpenFile::sha256() const {
    Sha256 digest;
    read_to([&](Bytes some) { digest.update(some); });
    return digest.hex();
}

fs::path OpenFile::link() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor()); }

Trusted open_trusted(int parent, const fs::path &name, mode_t type, bool follow) {
    const char *other = type == S_IFDIR ? "not a folder" : "not a regular file";
    const int flags =
        O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW) | (type == S_IFDIR ? O_DIRECTORY : 0);
    Trusted t{Descriptor(::openat(parent, name.c_str(), flags)), ""};
    struct stat status {};
    if (t.descriptor.number() < 0 || ::fstat(t.descriptor.number(), &status) != 0) switch (errno) {
        case ENOENT:
            t.why = "missing";
            break;
        case ELOOP:
        case ENOTDIR:
        case ENXIO:
            t.why = other;
            break;
        case EBADF:
            t.why = "in a folder that could not be opened";
            break;  // the folder's own error says why
        default:
            fail_file("open", name, errno);
        }
    else if ((status.st_mode & S_IFMT) != type)
        t.why = other;
    else if (status.st_uid != ::geteuid())
        t.why = fmt::format("owned by user {}, not {}", status.st_uid, ::geteuid());
    else if (status.st_mode & 022)
        t.why = fmt::format("writable by others (mode {:o})", status.st_mode & 0777);
    return t;
}

}  // namespace cryolite
