#include "apps/cryolite/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "runtime/collective/processes.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

uint64_t status_kb(const std::string &name) {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word)
        if (uint64_t kb = 0; word == name + ":" && status >> kb) return kb;
    return 0;
}

size_t terminal_width() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

/// 24312.3 -> "24,312", 3.21 -> "3.21"
std::string rate_text(double rate) {
    return rate >= 100 ? grouped(uint64_t(std::llround(rate))) : fmt::format("{:.2f}", rate);
}

}  // namespace

uint64_t peak_memory() { return status_kb("VmHWM") * 1024; }
uint64_t resident_bytes() { return status_kb("VmRSS") * 1024; }

std::string clock_text(double seconds) {
    const auto s = uint64_t(std::llround(std::clamp(seconds, 0.0, 1e9)));
    if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string grouped(uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (size_t i = 0; i < digits.size(); i++) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

std::string step_time_text(double seconds) {
    return seconds < 1e-4 ? fmt::format("{:.1f} µs", 1e6 * seconds) : fmt::format("{:.1f} ms", 1e3 * seconds);
}

std::string loss_text(double loss) {
    return std::abs(loss) < 0.01 ? fmt::format("{:.3g}", loss) : fmt::format("{:.4f}", loss);
}

std::string losses_words(const std::vector<std::pair<std::string, double>> &losses) {
    std::string words;
    for (auto &[name, loss] : losses)
        words += fmt::format("{}{} {}", words.empty() ? " (" : ", ", name, loss_text(loss));
    return words.empty() ? "" : words + ")";
}

Progress::Progress() : silent_(known_processes().rank() > 0) {
    const char *terminal = std::getenv("TERM");
    live_ = !silent_ && isatty(STDERR_FILENO) && !(terminal && std::string(terminal) == "dumb");
}

Progress::~Progress() { clear(); }

void Progress::clear() {
    if (dirty_) tell_text("\r\x1b[K");
    dirty_ = false;
}

void Progress::show_live(const std::string &line) {
    tell_text(fmt::format("\r{}\x1b[K", line.substr(0, terminal_width() - 1)));
    dirty_ = true;
}

void Progress::say(const std::string &line) {
    if (silent_) return;
    clear();
    tell("{}", line);
}

void Progress::compiling(int done, int total, int cached) {
    const std::string line = fmt::format("compiling kernels: {} of {}, {} from the cache", done, total, cached);
    if (live_) return show_live(line);
    const int tenths = 10 * done / std::max(1, total);
    if (done < total && (tenths == tenths_ || Clock::now() - shown_ <= std::chrono::seconds(5))) return;
    say(line);
    shown_ = Clock::now(), tenths_ = done == total ? -1 : tenths;
}

void Progress::preparing(const std::string &words) {
    if (live_) return show_live(words);
    if (Clock::now() - shown_ <= std::chrono::seconds(5)) return;
    say(words);
    shown_ = Clock::now();
}

void Progress::evaluating(uint64_t step, size_t done, size_t all) {
    if (Clock::now() - shown_ <= (live_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5))) return;
    shown_ = Clock::now();
    const std::string line = fmt::format("step {}: evaluating, {} of {} batches", step, grouped(done), grouped(all));
    live_ ? show_live(line) : say(line);
}

void Progress::step(const Step &s) {
    const auto now = Clock::now();
    const uint64_t every = std::max<uint64_t>(1, s.steps / 20), step = s.event.step;
    const bool last = step == s.steps;
    const bool due = live_ ? now - shown_ > std::chrono::milliseconds(100)
                           : step % every == 0 || now - shown_ > std::chrono::seconds(10);
    if (!due && !last) return;
    shown_ = now;
    const std::string fraction = s.fraction > 0 ? fmt::format("  {:.0f} % of peak", 100 * s.fraction) : "";
    const std::string withheld = s.event.withheld ? fmt::format("  {} updates withheld", s.event.withheld) : "";
    const std::string losses = losses_words(s.event.losses);
    const std::string width = std::to_string(s.steps);
    const std::string line =
        fmt::format("step {:>{}}/{}  loss {}{}{}  lr {:.2e}  {} {}/s  {}{}  {}  {} left", step, width.size(), width,
                    loss_text(s.event.loss), losses, withheld, s.event.lr, rate_text(s.event.tok_s), s.unit,
                    step_time_text(s.event.step_s), fraction, human_bytes(resident_bytes()), clock_text(s.left_s));
    if (live_)
        show_live(line);
    else
        say(line);
}

}  // namespace cryolite
