#pragma once
// Faults of the file system, for tests: the n-th system call on some files fails, or the process is killed there. The
// library defines the functions of the C library by which files are touched (open, read, fsync, rename, ...), also for
// what std::filesystem and SQLite call. A test program links it; any other is started with it in LD_PRELOAD and

//   CRYOLITE_FAULT_PATH   a pattern of paths, as fnmatch has it: "*" matches slashes too
//   CRYOLITE_FAULT        error, kill or torn; nothing: calls are counted only
//   CRYOLITE_FAULT_AT     at the n-th call on such a path, from 1
//   CRYOLITE_FAULT_CALL   counts calls of this name alone: "fsync"
//   CRYOLITE_FAULT_ERRNO  the number that an error gives (5, EIO)
//   CRYOLITE_FAULT_TRACE  a file to which each call is added: "fsync /path"

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

namespace cryolite::test {

/// A system call on a file, before it happens.
struct FileCall {
    std::string name;  ///< of the function of the C library, without the 64 of some: "open"
    std::string path;  ///< what it touches; of two, as for a rename, the new one
    bool operator==(const FileCall &) const = default;
};

enum class Fault {
    none,   ///< calls are counted only
    error,  ///< the call does nothing and fails with `number`
    kill,   ///< SIGKILL before the call
    torn,   ///< a write writes half of its bytes first; any other call as for `kill`
};

struct FaultPlan {
    std::string path = {};  ///< a pattern of absolute paths, as fnmatch has it
    Fault fault = Fault::none;
    long at = 0;            ///< at the n-th call on such a path, from 1
    int number = EIO;       ///< errno of an error
    std::string call = {};  ///< counts calls of this name alone
    bool lasting = false;   ///< an error of this call and all that follow
};

/// The plan holds while this lives, in all threads; one at a time.
class Faults {
public:
    explicit Faults(const FaultPlan &plan);
    ~Faults();
    Faults(const Faults &) = delete;

    std::vector<FileCall> calls() const;  ///< those that were counted
};

/// Runs `action` in a child process that has this plan. True when it was killed, false when it ended before.
/// `action` may throw: that is an end too.
bool killed(const FaultPlan &plan, const std::function<void()> &action);

/// For n = 1, 2, ...: prepare(), then action() with the plan's fault at its n-th call, then check(n); until action()
/// makes fewer calls than n. An error comes in this process, where action() catches what it throws; a kill in a child.
/// Returns how many calls were tried.
long at_every_call(FaultPlan plan, const std::function<void()> &prepare, const std::function<void()> &action,
                   const std::function<void(long n)> &check);

}  // namespace cryolite::test
