#include "runtime/system/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

void fail_thread(std::string_view what, int error) {
    fail("cannot start a thread for {}: {}; this user or container may have no more of them (ulimit -u, pids.max): end "
         "other "
         "programs, or use fewer with --threads",
         what, std::generic_category().message(error));
}

void Pauses::next() {
    constexpr int spins = 4000, yields = 20000;  // some milliseconds
    if (turns_ == yields)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    else if (turns_ >= spins)
        std::this_thread::yield();
    turns_ = std::min(turns_ + 1, yields);
}

void require_threads(int threads) {
    static thread_local int known = 1;
    if (threads <= known) return;
    std::atomic<bool> over{false};
    std::vector<std::thread> probes;
    const auto stop = [&] {
        over = true;
        over.notify_all();
        for (std::thread &t : probes) t.join();
    };
    try {
        while (static_cast<int>(probes.size()) + 1 < threads)
            probes.push_back(start_thread("a parallel loop", [&over] { over.wait(false); }));
    } catch (...) {
        stop();
        throw;
    }
    stop();
    known = threads;
}

}  // namespace cryolite
