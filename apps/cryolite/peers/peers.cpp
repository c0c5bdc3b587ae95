#include "apps/cryolite/peers/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <nlohmann/json.hpp>

#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/inputs/run_data.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"

namespace cryolite {

/// A running script: it reads a number of steps from its stdin and answers with a line of JSON.
struct Peers::Peer {
    std::string name, error;
    pid_t pid = -1;
    int in = -1, out = -1;
    fs::path log;
    std::string buffer;
    std::vector<double> times;
    uint64_t peak_rss_mb = 0;

    ~Peer() {
        if (in >= 0) ::close(in);
        if (out >= 0) ::close(out);
        if (pid > 0) {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, nullptr, 0);
        }
        std::error_code ignored;
        if (!log.empty()) fs::remove(log, ignored);
    }
    /// The next line; empty at its end, or after `seconds`.
    std::string line(double seconds) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        for (size_t at; (at = buffer.find('\n')) == std::string::npos;) {
            if (interrupted()) throw Interrupted("interrupted");
            if (std::chrono::steady_clock::now() > end) return error = "it did not answer in time", "";
            pollfd ready{out, POLLIN, 0};
            if (::poll(&ready, 1, 200) <= 0) continue;
            char bytes[4096];
            const ssize_t n = ::read(out, bytes, sizeof bytes);
            if (n <= 0) return error = how_it_went(), "";
            buffer.append(bytes, size_t(n));
        }
        const size_t at = buffer.find('\n');
        std::string line = buffer.substr(0, at);
        buffer.erase(0, at + 1);
        return line;
    }
    /// How a process has ended that has closed its stdout.
    std::string how_it_went() {
        int status = 0;
        const bool killed = ::waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        pid = -1;
        return killed ? "it was killed, as the system does where memory does not suffice" : "it ended early";
    }
    std::string last_words() const {
        std::error_code ignored;
        return fs::exists(log, ignored) ? last_lines(read_file(log), 600) : "";
    }
};

namespace {

/// Runs an installation, and shows what it says of itself.
void run_or_fail(std::vector<std::string> argv, const std::string &what, Progress &progress) {
    std::string said;
    const ProcessResult r =
        run_process({.argv = std::move(argv), .time_limit = 1800, .on_line = [&](std::string_view line) {
                         said += fmt::format("{}\n", line);
                         progress.preparing(fmt::format("{}: {}", what, line.substr(0, 100)));
                         return true;
                     }});
    if (!r.ok()) fail("{}: {}: {}", what, how_it_ended(r), last_lines(r.errors.empty() ? said : r.errors, 600));
}

/// torch.compile builds C++ against Python's headers, which Debian has in a package of their own.
void python_headers(const std::string &python, Progress &progress) {
    const char *found = "import os, sys, sysconfig\n"
                        "sys.exit(not os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))";
    if (run_process({.argv = {python, "-c", found}, .time_limit = 60}).ok()) return;
    progress.say("installing Python's headers for torch.compile");
    const char *install = "root=; [ \"$(id -u)\" = 0 ] || root='sudo -n'\n"
                          "$root apt-get -q update && $root env DEBIAN_FRONTEND=noninteractive "
                          "apt-get -q -y install --no-install-recommends libpython3-dev";
    try {
        run_or_fail({"sh", "-c", install}, "apt-get install libpython3-dev", progress);
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {
        progress.say(fmt::format("torch.compile cannot be used here: it needs Python.h, and {}", e.what()));
    }
}

/// A Python with torch; installs one where there is none. Errors: why it cannot be had.
std::string python_with_torch(Progress &progress) {
    if (const char *named = std::getenv("CRYOLITE_PEERS_PYTHON"); named && *named) return named;
    const fs::path requirements = source_path("apps/cryolite/peers/requirements.txt");
    const fs::path folder = source_path(".") / ".peers", python = folder / "bin" / "python";
    const fs::path done = folder / "installed.txt";
    std::error_code ignored;
    if (fs::exists(done, ignored) && read_file(done) == read_file(requirements)) {
        python_headers(python.string(), progress);
        return python.string();
    }
    progress.say("installing PyTorch into " + folder.lexically_normal().string() + " (once, several minutes)");
    run_or_fail({"python3", "-m", "venv", folder.string()}, "python3 -m venv", progress);
    run_or_fail({python.string(), "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check",
                 "--retries", "1", "-r", requirements.string()},
                "pip install", progress);
    write_file_atomic(done, read_file(requirements));
    python_headers(python.string(), progress);
    return python.string();
}

std::vector<std::string> script_arguments(const std::string &python, const std::string &script, const char *mode,
                                          const TrainSettings &s, int threads) {
    std::vector<std::string> argv = {python,   "-W", "ignore", source_path("apps/cryolite/peers/" + script).string(),
                                     "--mode", mode};
    for (auto &[name, value] : s.params) argv.insert(argv.end(), {"--" + name, value});
    auto add = [&](const char *flag, double value) {
        argv.push_back(flag);
        argv.push_back(fmt::format("{}", value));
    };
    add("--threads", threads), add("--clip", s.clip), add("--lr", s.rate.high);
    for (auto &[name, value] : s.numbers) add(("--" + name).c_str(), value);
    argv.insert(argv.end(), {"--optimizer", s.optimizer, "--precision", s.precision});
    return argv;
}

}  // namespace

Peers::Peers(const TrainSettings &s, const std::string &script, int threads, Progress &progress) : progress_(progress) {
    try {
        const std::string python = python_with_torch(progress);
        for (const char *mode : {"eager", "compile", "backward"}) start(python, script, mode, s, threads);
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {
        missing_ = fmt::format("PyTorch cannot be used here: {}. To use one that is installed, name its Python in "
                               "CRYOLITE_PEERS_PYTHON",
                               e.what());
    }
}

Peers::~Peers() = default;

void Peers::start(const std::string &python, const std::string &script, const char *mode, const TrainSettings &s,
                  int threads) {
    auto peer = std::make_unique<Peer>();
    peer->name = std::string("torch ") + mode;
    std::string log = (fs::temp_directory_path() / "cryolite-peer-XXXXXX").string();
    const int errors = ::mkstemp(log.data());
    peer->log = log;
    int to[2], from[2];
    if (errors < 0 || ::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0)
        fail("no pipe for {}: {}", peer->name, std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    posix_spawn_file_actions_adddup2(&actions, errors, 2);
    std::vector<std::string> words = script_arguments(python, script, mode, s, threads);
    std::vector<char *> argv;
    for (std::string &w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    const int code = ::posix_spawnp(&peer->pid, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]), ::close(from[1]), ::close(errors);
    peer->in = to[1], peer->out = from[0];
    if (code != 0) {
        peer->pid = -1;
        fail("cannot run {}: {}", python, std::strerror(code));
    }
    progress_.say("starting " + peer->name);
    if (peer->line(900).empty()) return lose(*peer);
    peers_.push_back(std::move(peer));
}

void Peers::lose(const Peer &peer) {
    missing_ += fmt::format("{}{}: {}: {}", missing_.empty() ? "" : "\n", peer.name, peer.error, peer.last_words());
}

void Peers::round(uint64_t steps) {
    for (auto &peer : peers_) {
        if (!peer->error.empty()) continue;
        ::usleep(200'000);  // until threads that still spin after the last work come to rest
        const std::string order = fmt::format("{}\n", steps);
        const bool sent = ::write(peer->in, order.data(), order.size()) == ssize_t(order.size());
        const std::string answer = sent ? peer->line(3600) : "";
        const nlohmann::json j = nlohmann::json::parse(answer, nullptr, false);
        if (!j.is_object() || !j.contains("times")) {
            if (peer->error.empty()) peer->error = "it answered " + shown(answer);
            lose(*peer);
            continue;
        }
        for (double t : j["times"]) peer->times.push_back(t);
        peer->peak_rss_mb = j.value("peak_rss_mb", uint64_t{0});
    }
    ::usleep(200'000);
}

std::vector<PeerResult> Peers::results() const {
    std::vector<PeerResult> results;
    for (auto &peer : peers_) {
        std::vector<double> t = peer->times;
        if (t.empty()) continue;
        std::sort(t.begin(), t.end());
        results.push_back({peer->name, t.front(), t[t.size() / 2], peer->peak_rss_mb});
    }
    return results;
}

}  // namespace cryolite
