#pragma once
// What a person sees while a command works, on stderr: one live line on a terminal, plain lines now
// and then elsewhere.

#include <chrono>
#include <cstdint>
#include <string>

#include "apps/cryolite/report/events.h"

namespace cryolite {

/// "1:02", "2:03:04"
std::string clock_text(double seconds);
/// 1234567 -> "1,234,567"
std::string grouped(uint64_t number);

/// 1.77813 -> "1.7781", 0.00012345 -> "0.000123"
std::string loss_text(double loss);
/// " (first 1.25, second 0.5)"; empty: there are none.
std::string losses_words(const std::vector<std::pair<std::string, double>> &losses);

/// 0.0123 -> "12.3 ms", 0.0000456 -> "45.6 µs"
std::string step_time_text(double seconds);

class Progress {
public:
    Progress();  ///< live where stderr is a terminal
    ~Progress();
    Progress(const Progress &) = delete;

    void say(const std::string &line);
    /// On a terminal it shows every call. Elsewhere it prints a line for each tenth of the kernels, at least 5 seconds
    /// after the last one, and at the end.
    void compiling(int done, int total, int cached);
    /// Says in words what is done before compiling.
    void preparing(const std::string &words);

    /// Shows what goes on for a while, on a terminal only.
    void busy(const std::string &line) {
        if (live_) show_live(line);
    }
    /// Shows how many batches are evaluated: on a terminal ten times a second, elsewhere every 5 seconds.
    void evaluating(uint64_t step, size_t done, size_t all);
    /// Removes the live line, before something else is written to the terminal.
    void clear();

    struct Step {
        StepEvent event;
        uint64_t steps = 0;        ///< of the run
        double fraction = 0;       ///< of the machine's peak; 0: not known
        double left_s = 0;         ///< until the end
        const char *unit = "tok";  ///< of what tok_s counts
    };
    /// Shows the step, unless another was shown just before.
    void step(const Step &s);

private:
    using Clock = std::chrono::steady_clock;
    bool live_ = false, dirty_ = false;
    const bool silent_;  ///< another process of the run prints
    Clock::time_point shown_{};
    int tenths_ = -1;  ///< of the kernels, in the last line

    void show_live(const std::string &line);
};

uint64_t peak_memory();     ///< VmHWM of this process, in bytes
uint64_t resident_bytes();  ///< VmRSS

}  // namespace cryolite
