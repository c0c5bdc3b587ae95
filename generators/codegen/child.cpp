#include "generators/codegen/child.h"

#include <Halide.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>

#include "bundle/error.h"

namespace cryolite::compiler {

namespace {

using Clock = std::chrono::steady_clock;

struct Child {
    int index;
    pid_t pid;
    int out, err;
    Clock::time_point looked;
    double processor, spent;  ///< seconds: CPU time at the last look, and the time that counts towards the limit
    std::string output, errors;
    bool late = false;
};

/// The CPU time of a process in seconds, all its threads together; 0 where it is not known.
double processor_time(pid_t pid) {
    clockid_t clock;
    timespec t{};
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return 0;
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Counts the child's CPU time since the last look towards its limit, so that other work on the machine does not count.
/// Where the child used almost none, it hangs or waits for a process of its own: then the elapsed time counts.
void count_time(Child &c) {
    const double passed = std::chrono::duration<double>(Clock::now() - c.looked).count();
    if (passed < 0.5) return;
    const double processor = processor_time(c.pid), used = processor - c.processor;
    c.spent += used < 0.05 * passed ? passed : std::min(used, passed);
    c.looked = Clock::now(), c.processor = processor;
}

/// Runs in the child. The first byte that it sends says what follows: a result (+), an error message (-), or the
/// message that memory ran out (!).
[[noreturn]] void live(const std::function<std::string(int)> &work, int index, int out, int err, pid_t parent) {
    std::string text;
    prctl(PR_SET_PDEATHSIG, SIGKILL);   // a child killed at its limit takes its own children with it
    if (getppid() != parent) _exit(3);  // the parent was killed before the line above
    dup2(err, STDERR_FILENO);
    try {
        text = "+" + work(index);
    } catch (const Halide::Error &e) {
        text = std::string("-") + e.what();
    } catch (const std::bad_alloc &) {
        text = "!the compiler process ran out of memory";
    } catch (const std::exception &e) {
        text = std::string("-") + e.what();
    }
    for (size_t sent = 0; sent < text.size();) {
        ssize_t n = write(out, text.data() + sent, text.size() - sent);
        if (n <= 0) _exit(3);
        sent += size_t(n);
    }
    _exit(0);
}

Child start(const std::function<std::string(int)> &work, int index) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        fail("cannot make a pipe for a compiler process: {}", strerror(errno));
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) fail("cannot start a compiler process: {}", strerror(errno));
    if (pid == 0) {
        close(out[0]), close(err[0]);
        live(work, index, out[1], err[1], parent);
    }
    close(out[1]), close(err[1]);
    return {index, pid, out[0], err[0], Clock::now(), 0, 0, "", "", false};
}

/// Reads what has arrived. Returns whether more may come.
bool drain(int fd, std::string &into) {
    char bytes[65536];
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0) into.append(bytes, size_t(n));
    return n > 0 || (n < 0 && errno == EINTR);
}

std::string last_lines(const std::string &text, size_t most = 1500) {
    std::string tail = text.size() > most ? "..." + text.substr(text.size() - most) : text;
    while (!tail.empty() && tail.back() == '\n') tail.pop_back();
    return tail;
}

ChildResult finish(Child &c, int time_limit) {
    int status = 0;
    waitpid(c.pid, &status, 0);
    close(c.out), close(c.err);
    if (c.late) return {"", fmt::format("it took longer than the limit of {} s", time_limit), true};
    if (WIFSIGNALED(status))
        return {"",
                fmt::format("the compiler process died ({}): {}", strsignal(WTERMSIG(status)), last_lines(c.errors)),
                false, true};
    if (c.output.empty() || WEXITSTATUS(status) != 0)
        return {"", fmt::format("the compiler process ended without a result: {}", last_lines(c.errors)), false, true};
    if (c.output[0] == '!') return {"", c.output.substr(1), false, true};
    if (c.output[0] == '-') return {"", last_lines(c.output.substr(1), 4000)};
    return {c.output.substr(1), ""};
}

/// The children that run. Where `done` throws for one of them, the others are killed, so that they write nothing later.
struct Children : std::vector<Child> {
    ~Children() {
        for (Child &c : *this) kill(c.pid, SIGKILL);
        for (Child &c : *this) waitpid(c.pid, nullptr, 0), close(c.out), close(c.err);
    }
};

}  // namespace

void run_children(int count, int jobs, int time_limit, const std::function<std::string(int)> &work,
                  const std::function<void(int, const ChildResult &)> &done) {
    Children running;
    int next = 0;
    while (next < count || !running.empty()) {
        while (next < count && int(running.size()) < std::max(1, jobs)) running.push_back(start(work, next++));
        std::vector<pollfd> fds;
        for (const Child &c : running) fds.push_back({c.out, POLLIN, 0}), fds.push_back({c.err, POLLIN, 0});
        poll(fds.data(), fds.size(), 200);
        for (size_t i = running.size(); i-- > 0;) {
            Child &c = running[i];
            bool open = true;
            if (fds[2 * i + 1].revents) drain(c.err, c.errors);
            if (fds[2 * i].revents) open = drain(c.out, c.output);
            count_time(c);
            if (open && c.spent > time_limit) {
                c.late = true;
                kill(c.pid, SIGKILL);
                open = false;
            }
            if (open) continue;
            while (drain(c.err, c.errors)) {
            }
            Child ended = std::move(c);
            running.erase(running.begin() + long(i));
            done(ended.index, finish(ended, time_limit));
        }
    }
}

void share_jit_runtime() {
    Halide::Internal::JITSharedRuntime::get(nullptr, Halide::get_jit_target_from_environment());
}

}  // namespace cryolite::compiler
