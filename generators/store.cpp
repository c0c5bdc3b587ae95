#include "generators/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/error.h"
#include "generators/hash.h"

namespace cryolite {

namespace fs = std::filesystem;

std::string read_whole(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    if (!in) fail("cannot read {}: {}", path, strerror(errno));
    return bytes.str();
}

namespace {
/// What the system holds back until a file is really on disk shows here: a full disk, a quota.
void sync(const std::string &path) {
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        std::string why = strerror(errno);
        if (fd >= 0) close(fd);
        fail("cannot write {}: {}", path, why);
    }
    close(fd);
}
std::string temporary(const std::string &path) { return fmt::format("{}.tmp{}", path, getpid()); }
}  // namespace

void write_whole(const std::string &path, const std::string &bytes) {
    std::string tmp = temporary(path);
    try {
        std::ofstream out(tmp, std::ios::binary);
        out << bytes << std::flush;
        if (!out) fail("cannot write {}: {}", path, strerror(errno));
        out.close();
        sync(tmp);
        fs::rename(tmp, path);
    } catch (...) {
        std::error_code ignored;
        fs::remove(tmp, ignored);
        throw;
    }
}

KernelStore::KernelStore(std::string folder) : folder_(std::move(folder)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail("cannot make the kernel store {}: {}", folder_, error.message());
    chmod(folder_.c_str(), 0700);
}

bool KernelStore::has(const std::string &key) const {
    std::error_code ignored;
    std::string object = path(key), sum = folder_ + "/" + key + ".sum";
    if (!fs::exists(object, ignored)) return false;
    try {
        if (fs::exists(sum) && read_whole(sum) == digest(read_whole(object))) return true;
    } catch (const std::exception &) {
    }
    fmt::print(stderr, "cache: kernel {} is damaged; it is compiled again\n", key);
    fs::remove(object, ignored);
    fs::remove(sum, ignored);
    return false;
}

void KernelStore::put(const std::string &key, const std::function<void(const std::string &)> &write) const {
    // The compiler chooses the format by the ending: it stays ".o".
    std::string tmp = fmt::format("{}/tmp{}-{}.o", folder_, getpid(), key);
    try {
        write(tmp);
        sync(tmp);
        write_whole(folder_ + "/" + key + ".sum", digest(read_whole(tmp)));
        fs::rename(tmp, path(key));
    } catch (...) {
        std::error_code ignored;
        fs::remove(tmp, ignored);
        throw;
    }
}

}  // namespace cryolite
