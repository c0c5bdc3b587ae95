#include "runtime/files/metrics.h"

#include "runtime/io/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <utility>

namespace cryolite {

AppendFile::AppendFile(fs::path path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail_file("write", path_, errno);
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0) {
        size_ = status.st_size;
        return;
    }
    const int error = errno;
    ::close(descriptor_);
    fail_file("examine", path_, error);
}

AppendFile::~AppendFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

AppendFile::AppendFile(AppendFile &&other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

void AppendFile::append(Bytes bytes) {
    const int64_t size = size_ + static_cast<int64_t>(bytes.size());
    while (!bytes.empty()) {
        const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            const int error = done < 0 ? errno : ENOSPC;
            (void)!::ftruncate(descriptor_, size_);
            fail_file("write", path_, error, bytes.size());
        }
        bytes = bytes.subspan(static_cast<size_t>(done));
    }
    size_ = size;
}

void AppendFile::sync() {
    if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_file("sync", path_, errno);
}

namespace {

AppendFile emptied(const fs::path &path) {
    write_file_atomic(path, "", 0644, FolderSync::later);
    return AppendFile(path);
}

/// The whole lines of `text` up to `step`.
std::string lines_until(const std::string &text, uint64_t step) {
    std::string kept;
    bool keep = true;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                                text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                                /*allow_exceptions=*/false);
        if (!line.is_object()) continue;  // damaged
        if (const auto found = line.find("step"); found != line.end() && found->is_number())
            keep = found->get<double>() <= static_cast<double>(step);
        if (keep) kept.append(text, begin, end + 1 - begin);
    }
    return kept;
}

AppendFile cut_to(const fs::path &path, uint64_t step) {
    if (is_there(path)) write_file_atomic(path, lines_until(read_file(path), step), 0644, FolderSync::later);
    return AppendFile(path);
}

}  // namespace

MetricsWriter::MetricsWriter(const fs::path &path) : file_(emptied(path)) {}

MetricsWriter::MetricsWriter(const fs::path &path, uint64_t resumed_step) : file_(cut_to(path, resumed_step)) {}

void MetricsWriter::write(std::string_view object) {
    if (object.find('\n') != object.npos) fail("a line of metrics has a line break: {}", shown(object));
    file_.append(as_bytes(std::string(object) + '\n'));  // one write, so that a line is whole
}

}  // namespace cryolite
