#include "runtime/io/error.h"
#include "runtime/io/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace cryolite {

namespace {

void sync_tree(const fs::path &folder) {
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file() || entry.is_directory()) sync_path(entry.path());
    sync_path(folder);
}

/// Puts `folder` in the place of an existing one; returns where that one is then. It is one exchange, so that a kill
/// leaves one or the other; where the file system cannot exchange, there is neither for a moment.
fs::path replace_folder(const fs::path &folder, const fs::path &final_path) {
    if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) return folder;
    const fs::path aside = temporary_beside(final_path);
    if (::rename(final_path.c_str(), aside.c_str()) != 0) fail_file("move aside", final_path, errno);
    if (::rename(folder.c_str(), final_path.c_str()) != 0) {
        const int error = errno;
        (void)!::rename(aside.c_str(), final_path.c_str());
        fail_file("publish", final_path, error);
    }
    return aside;
}

}  // namespace

void sync_path(const fs::path &path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail_file("sync", path, errno);
    const int error = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    if (error && error != EINVAL) fail_file("sync", path, error);  // some file systems sync no folder
}

void make_private_dirs(const fs::path &path, unsigned mode) {
    std::vector<fs::path> missing;
    std::error_code ignored;
    for (fs::path p = path; !p.empty() && !fs::exists(p, ignored); p = p.parent_path())
        if (p.has_filename()) missing.push_back(p);
    for (auto p = missing.rbegin(); p != missing.rend(); ++p)
        if (::mkdir(p->c_str(), mode) != 0 && errno != EEXIST) fail_file("create folder", *p, errno);
    if (!path.empty() && !fs::is_directory(path, ignored))
        fail("cannot create folder {}: something that is no folder is in the way; remove it or name "
             "another place",
             path.string());
}

bool TemporaryFolder::publish(IfExists if_exists, Written files) {
    try {
        if (files == Written::plainly)
            sync_tree(path_);
        else
            sync_path(path_);
    } catch (const fs::filesystem_error &e) {
        fail("cannot publish {}: {}", final_.string(), e.what());
    }
    // RENAME_NOREPLACE: plain rename would silently replace an empty folder.
    int status = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_.c_str(), RENAME_NOREPLACE);
    if (status != 0 && errno == EINVAL) status = ::rename(path_.c_str(), final_.c_str());
    if (status == 0) {
        path_.clear();
    } else {
        if (errno != EEXIST && errno != ENOTEMPTY) fail_file("publish", final_, errno);
        if (if_exists == IfExists::keep) return false;
        path_ = replace_folder(path_, final_);  // the old one is removed once the new one is on the disk
    }
    sync_path(parent_of(final_));
    return true;
}

TemporaryFolder::TemporaryFolder(fs::path final_path, unsigned mode) : final_(std::move(final_path)) {
    make_private_dirs(parent_of(final_), mode);
    path_ = temporary_beside(final_);
    if (::mkdir(path_.c_str(), mode) != 0) fail_file("create folder", final_, errno);
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

void remove_folder(const fs::path &folder) {
    const fs::path aside = temporary_beside(folder);
    if (::rename(folder.c_str(), aside.c_str()) != 0) fail_file("remove", folder, errno);
    std::error_code error;
    fs::remove_all(aside, error);
    if (error) fail_file("remove", aside, error.value());
}

int remove_leftovers(const fs::path &folder) {
    int removed = 0;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (!entry->path().filename().string().starts_with(".tmp-")) continue;
        std::error_code ignored;
        if (fs::remove_all(entry->path(), ignored) != static_cast<uintmax_t>(-1)) ++removed;
    }
    return removed;
}

}  // namespace cryolite
