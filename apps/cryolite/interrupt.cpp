#include "apps/cryolite/interrupt.h"

#include <csignal>
#include <unistd.h>

namespace cryolite {

namespace {

volatile std::sig_atomic_t deferred = 0, met = 0;

void on_signal(int) {
    if (!deferred) _exit(interrupted_status);
    met = 1;
}

}  // namespace

void watch_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESETHAND | SA_RESTART;  // the second one is the system's
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    // A reader of our output that goes away is noticed where we write.
    signal(SIGPIPE, SIG_IGN);
}

void defer_signals(bool on) { deferred = on; }
bool interrupted() { return met != 0; }
void interrupt() { met = 1; }

}  // namespace cryolite
