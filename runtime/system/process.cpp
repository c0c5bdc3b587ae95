#include "runtime/system/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

namespace cryolite {

namespace {

constexpr size_t most_output = 16 << 20, most_errors = 64 << 10, most_line = 1 << 20;

double now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

volatile sig_atomic_t interrupted = 0;

/// Records SIGINT, SIGTERM and SIGHUP while it lives, then passes them to the handlers that were set before.
class SignalWatch {
public:
    SignalWatch() {
        interrupted = 0;
        struct sigaction action {};
        action.sa_handler = [](int number) { interrupted = number; };
        for (auto &[number, before] : watched_) {
            sigaction(number, &action, &before);
            if (before.sa_handler == SIG_IGN) sigaction(number, &before, nullptr);
        }
    }
    ~SignalWatch() {
        for (auto &[number, before] : watched_) sigaction(number, &before, nullptr);
        for (auto &[number, before] : watched_)
            if (interrupted == number && before.sa_handler != SIG_DFL) raise(number);
    }
    SignalWatch(const SignalWatch &) = delete;

private:
    struct Watched {
        int number;
        struct sigaction before;
    };
    Watched watched_[3] = {{SIGINT, {}}, {SIGTERM, {}}, {SIGHUP, {}}};
};

struct Pipe {
    int ends[2] = {-1, -1};
    Pipe() {
        if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe: {}", strerror(errno));
    }
    ~Pipe() { close_end(0), close_end(1); }
    Pipe(const Pipe &) = delete;
    void close_end(int end) {
        if (ends[end] >= 0) close(ends[end]);
        ends[end] = -1;
    }
};

/// The child, between fork and exec: only what is safe after a fork of a process with threads.
[[noreturn]] void become(char *const *argv, Pipe &out, Pipe &err, Pipe &failure, pid_t parent,
                         const ProcessOptions &options) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the line above
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const struct rlimit some = {options.memory_limit, options.memory_limit};
    if (options.memory_limit) setrlimit(RLIMIT_DATA, &some);
    for (int number : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
    const int empty = open("/dev/null", O_RDONLY);
    if (empty >= 0) dup2(empty, STDIN_FILENO);
    dup2(out.ends[1], STDOUT_FILENO);
    dup2(err.ends[1], STDERR_FILENO);
    if (options.program >= 0)
        fexecve(options.program, argv, environ);
    else
        execvp(argv[0], argv);
    const int error = errno;
    (void)!write(failure.ends[1], &error, sizeof error);
    _exit(127);
}

/// Passes whole lines to `on_line`; a line without an end is cut, so that no child can fill the memory. True: one of
/// them was a sign of life.
bool hand_on_lines(std::string &pending, bool at_end, const ProcessOptions &options) {
    bool alive = false;
    size_t begin = 0;
    for (size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1)
        alive |= options.on_line(std::string_view(pending).substr(begin, end - begin));
    pending.erase(0, begin);
    if ((at_end && !pending.empty()) || pending.size() > most_line) {
        alive |= options.on_line(pending);
        pending.clear();
    }
    return alive;
}

/// Reads what is there; false at the end.
bool drain(int descriptor, std::string &into) {
    char bytes[65536];
    const ssize_t n = read(descriptor, bytes, sizeof bytes);
    if (n > 0) into.append(bytes, static_cast<size_t>(n));
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/// Reads until both ends are closed or a limit is passed, which it puts into `result`.
void watch(const ProcessOptions &options, int out, int err, ProcessResult &result, double start) {
    double heard = start;
    bool open[2] = {true, true};
    while ((open[0] || open[1]) && !interrupted) {
        pollfd fds[2] = {{open[0] ? out : -1, POLLIN, 0}, {open[1] ? err : -1, POLLIN, 0}};
        poll(fds, 2, 100);
        if (fds[0].revents) {
            open[0] = drain(out, result.output);
            if (!options.on_line || hand_on_lines(result.output, !open[0], options)) heard = now();
            if (result.output.size() > most_output) result.output.resize(most_output);
        }
        if (fds[1].revents) {
            open[1] = drain(err, result.errors);
            if (result.errors.size() > 2 * most_errors) result.errors.erase(0, result.errors.size() - most_errors);
        }
        if (options.time_limit > 0 && now() - start > options.time_limit) result.limit = options.time_limit;
        if (options.silence_limit > 0 && now() - heard > options.silence_limit) result.limit = options.silence_limit;
        if (result.limit > 0) return;
    }
}

/// Waits for the end; a child that closed its output and lives on is held to the limits, too.
int wait_for(pid_t pid, const ProcessOptions &options, ProcessResult &result, double start) {
    // Silence counts from the end of the child's output, which may have come long after the start.
    const double limit = std::max(options.time_limit, options.silence_limit);
    const double from = options.time_limit > 0 ? start : now();
    bool killed = result.limit > 0;
    if (killed) kill(-pid, SIGKILL);
    for (;;) {
        siginfo_t info{};
        // WNOWAIT: while the child is not reaped, its number names this process group and no other.
        const int flags = WEXITED | WNOWAIT | (killed || limit <= 0 ? 0 : WNOHANG);
        const int error = waitid(P_PID, static_cast<id_t>(pid), &info, flags) == 0 ? 0 : errno;
        if (info.si_pid == pid || (error && error != EINTR)) break;
        if (interrupted || (limit > 0 && now() - from > limit)) {
            if (!interrupted) result.limit = limit;
            kill(-pid, SIGKILL);
            killed = true;
        }
        if (!error) usleep(1000);
    }
    kill(-pid, SIGKILL);  // what it started and left behind
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

}  // namespace

ProcessResult run_process(const ProcessOptions &options) {
    std::vector<char *> argv;
    for (const std::string &word : options.argv) argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    const double start = now();
    ProcessResult result;
    int status = 0, number = 0;
    {
        SignalWatch signals;
        Pipe out, err, failure;
        const pid_t parent = getpid();
        const pid_t pid = fork();
        if (pid < 0) fail("cannot start {}: {}", options.argv.at(0), strerror(errno));
        if (pid == 0) become(argv.data(), out, err, failure, parent, options);
        setpgid(pid, pid);  // parent and child both do so: either may be first
        for (Pipe *p : {&out, &err, &failure}) p->close_end(1);
        int error = 0;
        if (read(failure.ends[0], &error, sizeof error) == sizeof error) {
            waitpid(pid, &status, 0);
            fail("cannot run {}: {}", options.argv[0], strerror(error));
        }
        try {
            watch(options, out.ends[0], err.ends[0], result, start);
            if (interrupted) kill(-pid, SIGKILL);
            status = wait_for(pid, options, result, start);
        } catch (...) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            throw;
        }
        number = interrupted;
    }
    if (number) throw Interrupted(fmt::format("interrupted while {} ran", options.argv[0]));
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
    result.errors = result.errors.substr(result.errors.size() - std::min(result.errors.size(), most_errors));
    result.seconds = now() - start;
    return result;
}

uint64_t physical_memory() {
    auto all = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (const char *file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
        if (uint64_t limit = 0; std::ifstream(file) >> limit && limit > 0) all = std::min(all, limit);
    return all;
}

uint64_t memory_share(int processes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)processes;
    return 0;
#else
    return std::max<uint64_t>(physical_memory() / static_cast<uint64_t>(processes + 1), uint64_t{2} << 30);
#endif
}

std::string how_it_ended(const ProcessResult &result) {
    if (result.limit > 0) return fmt::format("it ran longer than the limit of {:g} s", result.limit);
    if (result.signal) return fmt::format("it crashed ({})", strsignal(result.signal));
    return fmt::format("exit status {}", result.status);
}

std::string last_lines(const std::string &text, size_t most) {
    std::string tail = text;
    if (tail.size() > most) {
        tail = tail.substr(tail.size() - most);
        const size_t line = tail.find('\n');
        if (line != std::string::npos && line + 1 < tail.size()) tail = tail.substr(line + 1);
    }
    while (!tail.empty() && tail.back() == '\n') tail.pop_back();
    return tail;
}

}  // namespace cryolite
