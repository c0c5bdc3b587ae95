#pragma once
// Threads of this process, and the error where the system gives no more of them.

#include <string_view>
#include <thread>

namespace cryolite {

/// Throws that a thread cannot be started: what it was for, the system's reason, and what helps.
[[noreturn]] void fail_thread(std::string_view what, int error);

/// Starts a thread that runs `work`. Where it cannot be started, the message says `what` it was for.
template <typename Work> std::thread start_thread(std::string_view what, Work &&work) {
    try {
        return std::thread(std::forward<Work>(work));
    } catch (const std::system_error &e) {
        fail_thread(what, e.code().value());
    }
}

/// Pauses between two polls of a condition: at first spinning, later without keeping a core busy.
class Pauses {
public:
    void next();

private:
    int turns_ = 0;
};

/// Throws unless this thread can start `threads` - 1 others, as a parallel region of OpenMP needs: its runtime would
/// end the process. Tries it out with threads that end at once, each time that a thread asks for more than before.
void require_threads(int threads);

}  // namespace cryolite
