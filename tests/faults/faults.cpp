#include "tests/faults/faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace cryolite::test {

namespace {

struct State {
    FaultPlan plan;
    std::vector<FileCall> calls;
    long count = 0;
    int trace = -1;  ///< where a program that was not made for tests leaves its calls
    std::mutex mutex;
};

State &state() {
    static State *made = new State;  // calls come until the very end of the process
    return *made;
}

std::atomic<bool> armed{false};

/// Paths of descriptors are asked for by the call itself: readlink of the C library may be one of ours.
std::string path_of(int descriptor) {
    if (descriptor == AT_FDCWD) {
        char folder[4096];
        return ::getcwd(folder, sizeof folder) ? folder : "";
    }
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const long length = ::syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path, sizeof path);
    return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
}

std::string path_of(int folder, const char *path) {
    if (!path || !*path) return path_of(folder);
    return *path == '/' ? path : path_of(folder) + "/" + path;
}
std::string path_of(const char *path) { return path_of(AT_FDCWD, path); }

/// What is to happen to this call; it does not come back from a kill.
Fault verdict(const char *name, const std::string &path, const std::string &other) {
    State &s = state();
    const std::lock_guard lock(s.mutex);
    if (!armed || (!s.plan.call.empty() && s.plan.call != name)) return Fault::none;
    const auto matches = [&](const std::string &p) { return ::fnmatch(s.plan.path.c_str(), p.c_str(), 0) == 0; };
    if (!matches(path) && (other.empty() || !matches(other))) return Fault::none;
    if (s.trace >= 0) {
        const std::string line = std::string(name) + " " + path + "\n";
        (void)!::syscall(SYS_write, s.trace, line.data(), line.size());
    } else {
        s.calls.push_back({name, path});
    }
    ++s.count;
    if (s.plan.fault == Fault::none || s.count < s.plan.at) return Fault::none;
    if (s.count > s.plan.at && !s.plan.lasting) return Fault::none;
    if (s.plan.fault == Fault::kill || (s.plan.fault == Fault::torn && std::string(name) != "write"))
        ::kill(::getpid(), SIGKILL);
    return s.plan.fault;
}

/// `call()`, or what the plan has for it.
template <typename Failed, typename Path, typename Call>
auto through(const char *name, Failed failed, Path path, Call call, const std::string &other = "") {
    if (!armed) return call();
    const int before = errno;
    const Fault fault = verdict(name, path(), other);
    errno = fault == Fault::error ? state().plan.number : before;
    return fault == Fault::error ? decltype(call())(failed) : call();
}

/// As `through`, for what writes `size` bytes by call(size).
template <typename Call> ssize_t through_write(int descriptor, size_t size, Call call) {
    if (!armed) return call(size);
    const Fault fault = verdict("write", path_of(descriptor), "");
    if (fault == Fault::torn) {
        (void)!call(size / 2);
        ::kill(::getpid(), SIGKILL);
    }
    if (fault != Fault::error) return call(size);
    errno = state().plan.number;
    return -1;
}

void arm(const FaultPlan &plan, int trace) {
    State &s = state();
    const std::lock_guard lock(s.mutex);
    s.plan = plan;
    s.calls.clear();
    s.count = 0;
    s.trace = trace;
    armed = true;
}

std::string variable(const char *name) {
    const char *text = ::getenv(name);
    return text ? text : "";
}

__attribute__((constructor)) void read_environment() {
    FaultPlan plan;
    plan.path = variable("CRYOLITE_FAULT_PATH");
    if (plan.path.empty()) return;
    const std::string fault = variable("CRYOLITE_FAULT"), number = variable("CRYOLITE_FAULT_ERRNO");
    plan.fault = fault == "error"  ? Fault::error
                 : fault == "kill" ? Fault::kill
                 : fault == "torn" ? Fault::torn
                                   : Fault::none;
    plan.at = ::atol(variable("CRYOLITE_FAULT_AT").c_str());
    plan.call = variable("CRYOLITE_FAULT_CALL");
    if (!number.empty()) plan.number = ::atoi(number.c_str());
    const std::string trace = variable("CRYOLITE_FAULT_TRACE");
    constexpr int how = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    // Without a trace, its calls are still not kept: the process may be a long one.
    arm(plan,
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, trace.empty() ? "/dev/null" : trace.c_str(), how, 0644)));
}

}  // namespace

Faults::Faults(const FaultPlan &plan) { arm(plan, -1); }
Faults::~Faults() { armed = false; }

std::vector<FileCall> Faults::calls() const {
    const std::lock_guard lock(state().mutex);
    return state().calls;
}

bool killed(const FaultPlan &plan, const std::function<void()> &action) {
    const pid_t child = ::fork();
    if (child == 0) {
        try {
            const Faults faults(plan);
            action();
        } catch (...) {
        }
        ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

long at_every_call(FaultPlan plan, const std::function<void()> &prepare, const std::function<void()> &action,
                   const std::function<void(long n)> &check) {
    for (plan.at = 1;; ++plan.at) {
        prepare();
        bool happened = true;
        if (plan.fault == Fault::error) {
            const Faults faults(plan);
            action();
            happened = long(faults.calls().size()) >= plan.at;
        } else {
            happened = killed(plan, action);
        }
        if (!happened) return plan.at - 1;
        check(plan.at);
    }
}

}  // namespace cryolite::test

// The functions of the C library, each with the one that is really meant.

using cryolite::test::path_of;
using cryolite::test::through;
using cryolite::test::through_write;

#define REAL(name)                                                                                                     \
    ([] {                                                                                                              \
        static const auto function = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name));                   \
        return function;                                                                                               \
    }())

/// Functions of a path, of a folder's descriptor and a path in it, or of a descriptor; counted as `as`.
#define BY_PATH(type, failed, as, name, parameters, arguments)                                                         \
    type name parameters {                                                                                             \
        return through(                                                                                                \
            as, failed, [&] { return path_of(path); }, [&] { return REAL(name) arguments; });                          \
    }
#define BY_FOLDER(type, failed, as, name, parameters, arguments)                                                       \
    type name parameters {                                                                                             \
        return through(                                                                                                \
            as, failed, [&] { return path_of(folder, path); }, [&] { return REAL(name) arguments; });                  \
    }
#define BY_DESCRIPTOR(type, failed, as, name, parameters, arguments)                                                   \
    type name parameters {                                                                                             \
        return through(                                                                                                \
            as, failed, [&] { return path_of(file); }, [&] { return REAL(name) arguments; });                          \
    }
#define WRITES(name, parameters, arguments)                                                                            \
    ssize_t name parameters {                                                                                          \
        return through_write(file, size, [&](size_t size) { return REAL(name) arguments; });                           \
    }
/// The mode that follows where a call of open may create a file.
#define MODE(how)                                                                                                      \
    va_list rest;                                                                                                      \
    va_start(rest, how);                                                                                               \
    const mode_t mode = how & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
    va_end(rest)

extern "C" {

int open(const char *path, int how, ...) {
    MODE(how);
    return through(
        "open", -1, [&] { return path_of(path); }, [&] { return REAL(open)(path, how, mode); });
}
int open64(const char *path, int how, ...) {
    MODE(how);
    return through(
        "open", -1, [&] { return path_of(path); }, [&] { return REAL(open64)(path, how, mode); });
}
int openat(int folder, const char *path, int how, ...) {
    MODE(how);
    return through(
        "open", -1, [&] { return path_of(folder, path); }, [&] { return REAL(openat)(folder, path, how, mode); });
}
int openat64(int folder, const char *path, int how, ...) {
    MODE(how);
    return through(
        "open", -1, [&] { return path_of(folder, path); }, [&] { return REAL(openat64)(folder, path, how, mode); });
}

BY_PATH(FILE *, nullptr, "open", fopen, (const char *path, const char *how), (path, how))
BY_PATH(FILE *, nullptr, "open", fopen64, (const char *path, const char *how), (path, how))
BY_PATH(DIR *, nullptr, "opendir", opendir, (const char *path), (path))
BY_DESCRIPTOR(DIR *, nullptr, "opendir", fdopendir, (int file), (file))

dirent *readdir(DIR *folder) {
    return through(
        "readdir", nullptr, [&] { return path_of(::dirfd(folder)); }, [&] { return REAL(readdir)(folder); });
}
dirent64 *readdir64(DIR *folder) {
    return through(
        "readdir", nullptr, [&] { return path_of(::dirfd(folder)); }, [&] { return REAL(readdir64)(folder); });
}

// A descriptor is closed even where closing fails.
int close(int file) {
    const int failed = through(
                  "close", -1, [&] { return path_of(file); }, [] { return 0; }),
              number = errno;
    const int status = REAL(close)(file);
    if (failed) errno = number;
    return failed ? failed : status;
}

BY_DESCRIPTOR(ssize_t, -1, "read", read, (int file, void *to, size_t size), (file, to, size))
BY_DESCRIPTOR(ssize_t, -1, "read", pread, (int file, void *to, size_t size, off_t at), (file, to, size, at))
BY_DESCRIPTOR(ssize_t, -1, "read", pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
void *mmap(void *where, size_t size, int may, int how, int file, off_t at) noexcept {
    if (file < 0) return REAL(mmap)(where, size, may, how, file, at);  // memory
    return through(
        "mmap", MAP_FAILED, [&] { return path_of(file); }, [&] { return REAL(mmap)(where, size, may, how, file, at); });
}

WRITES(write, (int file, const void *from, size_t size), (file, from, size))
WRITES(pwrite, (int file, const void *from, size_t size, off_t at), (file, from, size, at))
WRITES(pwrite64, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
WRITES(sendfile, (int file, int from, off_t *at, size_t size) noexcept, (file, from, at, size))
WRITES(sendfile64, (int file, int from, off64_t *at, size_t size) noexcept, (file, from, at, size))

BY_DESCRIPTOR(int, -1, "fsync", fsync, (int file), (file))
BY_DESCRIPTOR(int, -1, "fsync", fdatasync, (int file), (file))
BY_DESCRIPTOR(int, -1, "flock", flock, (int file, int how) noexcept, (file, how))
BY_DESCRIPTOR(int, -1, "truncate", ftruncate, (int file, off_t size) noexcept, (file, size))
BY_DESCRIPTOR(int, -1, "chmod", fchmod, (int file, mode_t mode) noexcept, (file, mode))
BY_DESCRIPTOR(int, -1, "stat", fstat, (int file, struct stat *to) noexcept, (file, to))
BY_DESCRIPTOR(int, -1, "stat", fstat64, (int file, struct stat64 *to) noexcept, (file, to))

BY_PATH(int, -1, "stat", stat, (const char *path, struct stat *to) noexcept, (path, to))
BY_PATH(int, -1, "stat", stat64, (const char *path, struct stat64 *to) noexcept, (path, to))
BY_PATH(int, -1, "stat", lstat, (const char *path, struct stat *to) noexcept, (path, to))
BY_PATH(int, -1, "stat", lstat64, (const char *path, struct stat64 *to) noexcept, (path, to))
BY_FOLDER(int, -1, "stat", fstatat, (int folder, const char *path, struct stat *to, int how) noexcept,
          (folder, path, to, how))
BY_FOLDER(int, -1, "stat", fstatat64, (int folder, const char *path, struct stat64 *to, int how) noexcept,
          (folder, path, to, how))
BY_PATH(int, -1, "access", access, (const char *path, int how) noexcept, (path, how))
BY_PATH(int, -1, "mkdir", mkdir, (const char *path, mode_t mode) noexcept, (path, mode))
BY_PATH(int, -1, "rmdir", rmdir, (const char *path) noexcept, (path))
BY_PATH(int, -1, "unlink", unlink, (const char *path) noexcept, (path))
BY_PATH(int, -1, "unlink", remove, (const char *path) noexcept, (path))
BY_FOLDER(int, -1, "unlink", unlinkat, (int folder, const char *path, int how) noexcept, (folder, path, how))
BY_PATH(int, -1, "chmod", chmod, (const char *path, mode_t mode) noexcept, (path, mode))
BY_FOLDER(int, -1, "chmod", fchmodat, (int folder, const char *path, mode_t mode, int how) noexcept,
          (folder, path, mode, how))
BY_PATH(int, -1, "truncate", truncate, (const char *path, off_t size) noexcept, (path, size))

int link(const char *from, const char *to) noexcept {
    return through(
        "link", -1, [&] { return path_of(to); }, [&] { return REAL(link)(from, to); }, path_of(from));
}
int rename(const char *from, const char *to) noexcept {
    return through(
        "rename", -1, [&] { return path_of(to); }, [&] { return REAL(rename)(from, to); }, path_of(from));
}
int renameat2(int from_folder, const char *from, int folder, const char *to, unsigned how) noexcept {
    return through(
        "rename", -1, [&] { return path_of(folder, to); },
        [&] { return REAL(renameat2)(from_folder, from, folder, to, how); }, path_of(from_folder, from));
}

}  // extern "C"
