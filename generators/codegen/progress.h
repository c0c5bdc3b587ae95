#pragma once
// Reports the progress of long work before the first kernel is compiled: to people, and to the command, which ends a
// program that is silent for too long.

#include <chrono>
#include <functional>
#include <string>

namespace cryolite::compiler {

class ProgressReporter {
public:
    ProgressReporter(std::string what, int total) : what_(std::move(what)), total_(total) {}
    /// One more of `total` is done; says so after two seconds, then once a second.
    void step() {
        done_++;
        const auto now = std::chrono::steady_clock::now();
        if (!report || now < next_) return;
        next_ = now + std::chrono::seconds(1);
        report(what_, done_, total_);
    }
    /// Receives the reports; set by the main program where it wants them.
    static inline std::function<void(const std::string &what, int done, int total)> report;

private:
    std::string what_;
    int total_, done_ = 0;
    std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(2);
};

}  // namespace cryolite::compiler
