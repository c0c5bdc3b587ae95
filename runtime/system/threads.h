#pragma once
// Threads of this process, and a named error where the system gives no more of them.

#include <string_view>
#include <thread>

namespace cryolite {

/// Throws what a thread that cannot be started means: what it was for, the system's reason, what helps.
[[noreturn]] void fail_thread(std::string_view what, int error);

/// A thread that runs `work`. `what` it is for stands in the message where there is none to be had.
template <typename Work> std::thread start_thread(std::string_view what, Work &&work) {
    try {
        return std::thread(std::forward<Work>(work));
    } catch (const std::system_error &e) {
        fail_thread(what, e.code().value());
    }
}

/// Between looks at something that will come: first with an eye on every moment, later without keeping a core busy.
class Pauses {
public:
    void next();

private:
    int turns_ = 0;
};

/// Throws unless this thread can have `threads` - 1 others beside it, as a parallel region of OpenMP needs them: its
/// runtime would end the process. They are started and ended again,
/// once for each thread that asks and each larger number.
void require_threads(int threads);

}  // namespace cryolite
