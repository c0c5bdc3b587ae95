#include "apps/cryolite/endings/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "apps/cryolite/cli/flags.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/run/run_folder.h"
#include "runtime/files/checkpoint.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

volatile std::sig_atomic_t child = 0, signalled = 0;

/// The child has a process group of its own, so that it gets each signal once: from here, not from the terminal.
void forward(int number) {
    signalled = number;
    if (child > 0 && stop_of(number) != Stop::same) kill(child, number);
}

void forward_signals() {
    struct sigaction action = {}, before = {};
    action.sa_handler = forward;
    for (int number : {SIGINT, SIGTERM, SIGHUP}) {
        sigaction(number, nullptr, &before);
        if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
    }
}

[[noreturn]] void become(const std::vector<std::string> &words, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // the parent died before prctl()
    signal(SIGTTOU, SIG_IGN);           // a process in the background may write to the terminal, too
    const int empty = open("/dev/null", O_RDONLY);
    if (empty >= 0) dup2(empty, STDIN_FILENO);
    std::vector<char *> argv;
    for (const std::string &word : words) argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
}

/// Runs a command, and returns its status as waitpid gives it.
int run_child(const std::vector<std::string> &words) {
    const pid_t parent = getpid();
    sigset_t all, before;  // a signal meanwhile waits until `child` says whom to hand it to
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) become(words, parent);
    const int error = errno;
    child = pid;
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) fail("cannot start the run: {}", strerror(error));
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    child = 0;
    return status;
}

std::string how_it_ended(int status) {
    if (WIFSIGNALED(status)) return fmt::format("was ended by a signal ({})", strsignal(WTERMSIG(status)));
    return fmt::format("ended with status {}", WEXITSTATUS(status));
}

class Supervisor {
public:
    Supervisor(const TrainSettings &s, const std::vector<std::string> &arguments)
        : s_(s), arguments_(without_flags(arguments, {"restarts", "launch", "workers", "out", "resume="})),
          out_(s.out.empty() ? default_folder(s.app) : s.out) {}

    int run() {
        forward_signals();
        int workers = s_.workers, in_vain = 0;
        for (int restart = 0;; restart++) {
            const uint64_t before = newest();
            const int status = run_child(words(workers, restart > 0 || s_.resume));
            const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            if (signalled || code == 0 || code == 2 || code == interrupted_status) return code;
            if (restart == s_.restarts) {
                tell("cryolite: the run {}; no restart is left of --restarts {}", how_it_ended(status), s_.restarts);
                return 1;
            }
            const bool went_on = newest() > before;
            in_vain = went_on ? 0 : in_vain + 1;
            workers = in_vain > 1 && !s_.launch.empty() ? fewer_workers(s_, workers) : s_.workers;
            tell("cryolite: the run {}; restart {} of {}, from step {} with {} worker{}", how_it_ended(status),
                 restart + 1, s_.restarts, newest(), workers, workers == 1 ? "" : "s");
            if (in_vain > 0) sleep(unsigned(std::min(1 << std::min(in_vain - 1, 6), 60)));
            if (signalled) return interrupted_status;
        }
    }

private:
    const TrainSettings &s_;
    const std::vector<std::string> arguments_;
    const fs::path out_;

    uint64_t newest() const {
        const std::vector<Checkpoint> all = list_checkpoints(out_);
        return all.empty() ? 0 : all.front().step;
    }
    std::vector<std::string> words(int workers, bool resume) const {
        std::vector<std::string> all;
        if (!s_.launch.empty()) {
            std::string launch = s_.launch;
            for (size_t at; (at = launch.find("{workers}")) != std::string::npos;)
                launch.replace(at, strlen("{workers}"), std::to_string(workers));
            all = {"/bin/sh", "-c", "exec " + launch + " \"$@\"", "sh"};
        }
        std::error_code error;
        const fs::path self = fs::read_symlink("/proc/self/exe", error);
        if (error) fail("cannot find this program's own file: {}", error.message());
        all.insert(all.end(), {self.string(), "train"});
        all.insert(all.end(), arguments_.begin(), arguments_.end());
        all.insert(all.end(), {"--out", out_.string()});
        // Under mpirun the processes are counted. If only one is left, the run's own file may still name more workers.
        if (s_.launch.empty() || workers == 1) all.insert(all.end(), {"--workers", std::to_string(workers)});
        if (resume) all.push_back("--resume");
        return all;
    }
};

}  // namespace

std::vector<std::string> without_flags(const std::vector<std::string> &arguments,
                                       const std::vector<std::string> &flags) {
    std::vector<std::string> rest;
    for (size_t i = 0; i < arguments.size(); i++) {
        const std::string &word = arguments[i];
        bool found = false;
        for (const std::string &flag : flags) {
            const bool is_switch = flag.ends_with("=");
            const std::string name = "--" + flag.substr(0, flag.size() - is_switch);
            if (word == name)
                found = true, i += !is_switch;
            else if (word.starts_with(name + "="))
                found = true;
            if (found) break;
        }
        if (!found) rest.push_back(word);
    }
    return rest;
}

int run_supervised(const TrainSettings &settings, const std::vector<std::string> &arguments) {
    return Supervisor(settings, arguments).run();
}

int fewer_workers(const TrainSettings &s, int workers) {
    const int shared = s.parts ? s.parts : s.param("batch", 1);
    do workers--;
    while (workers > 1 && shared % workers != 0);
    return std::max(workers, 1);
}

}  // namespace cryolite
