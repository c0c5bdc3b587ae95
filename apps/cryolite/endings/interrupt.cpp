#include "apps/cryolite/endings/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

namespace cryolite {

namespace {

volatile std::sig_atomic_t deferred = 0, met = 0;
std::atomic<const char *> said = nullptr;

long milliseconds() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1'000'000;
}

void on_signal(int number) {
    if (!deferred) _exit(interrupted_status);
    const int error = errno;
    const Stop stop = stop_of(number);
    if (stop == Stop::same) return;
    if (stop == Stop::again) {
        signal(number, SIG_DFL);
        raise(number);  // it comes when this function returns
        return;
    }
    met = 1;
    // write() is safe in a signal handler, other ways to print are not. A line that cannot be written is given up.
    if (const char *words = said) [[maybe_unused]]
        const ssize_t n = write(STDERR_FILENO, words, std::strlen(words));
    errno = error;
}

}  // namespace

Stop stop_of(int number) {
    constexpr long same = 500;  // `timeout` sends its signal to the process, and at once to its group as well
    static std::atomic<long> of_int = 0, of_term = 0;
    if (number == SIGHUP) return Stop::first;
    std::atomic<long> &asked = number == SIGINT ? of_int : of_term;
    const long now = milliseconds();
    long before = 0;
    if (asked.compare_exchange_strong(before, now)) return Stop::first;
    return now - before < same ? Stop::same : Stop::again;
}

void watch_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    struct sigaction before = {};
    sigaction(SIGHUP, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
    // If the reader of our output goes away, or a file grows too large, the write fails, and its caller notices.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

void defer_signals(const char *words) {
    said = words;
    deferred = 1;
}
void stop_deferring() { deferred = 0; }
bool interrupted() { return met != 0; }
void interrupt() { met = 1; }

}  // namespace cryolite
