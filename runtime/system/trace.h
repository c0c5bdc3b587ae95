#pragma once
// What the threads of this process do over time, as a file in Chrome's Trace Event format, which ui.perfetto.dev and
// chrome://tracing draw. Where nobody traces, a span costs one branch.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/io/files.h"

namespace cryolite {

/// Whether a trace is being recorded.
inline std::atomic<bool> trace_on{false};
inline bool tracing() { return trace_on.load(std::memory_order_relaxed); }

using TraceClock = std::chrono::steady_clock;

/// Names the calling thread in traces, also in those that begin later. Without a name it is "main", or numbered.
void name_thread(std::string name);
const std::string &thread_name();

/// Something that the calling thread does while this object lives. Spans of a thread are nested.
class TraceSpan {
public:
    /// `category`: a literal, by which a viewer filters: step, pass, kernel, loop, wait, loader, checkpoint, run. An
    /// empty name makes no span. `number`: of the step or micro-batch; -1: none.
    TraceSpan(const char *category, std::string_view name, int64_t number = -1) {
        if (tracing()) [[unlikely]]
            begin(category, name, number);
    }
    ~TraceSpan() {
        if (category_) [[unlikely]]
            end();
    }
    TraceSpan(const TraceSpan &) = delete;

private:
    void begin(const char *category, std::string_view name, int64_t number);
    void end();

    const char *category_ = nullptr;  ///< null: not recorded
    std::string_view name_;           ///< kept alive by whoever made the span
    int64_t number_ = -1;
    TraceClock::time_point began_;
};

/// Records a span from `began` to now, where tracing is on. Spans shorter than a microsecond are left out. `joins`:
/// extends the thread's last span, where that has the same name and ended less than two microseconds ago.
void trace_since(const char *category, std::string_view name, TraceClock::time_point began, bool joins = false);
/// What a viewer shows beside each span of this name.
void trace_note(std::string_view name, std::string_view words);

/// Stops recording while it lives, but for spans that have begun already: for work that repeats over and over.
class TracePause {
public:
    TracePause() : was_on_(trace_on.exchange(false)) {}
    ~TracePause();
    TracePause(const TracePause &) = delete;

private:
    const bool was_on_;
};

/// Records from its construction until `finish`. Only one can record at a time.
class Trace {
public:
    struct Options {
        size_t most_events = 250'000;   ///< recording ends after so many: 40 bytes each, 120 in the file
        int process = 0;                ///< its number in the file: the rank
        std::string name = "cryolite";  ///< of the process
    };
    /// Begins with a trace without events. Errors: the file cannot be written, or is there and is no trace.
    explicit Trace(fs::path file) : Trace(std::move(file), Options()) {}
    Trace(fs::path file, Options options);
    /// Does what `finish` does, where nobody has called it.
    ~Trace();
    Trace(const Trace &) = delete;

    /// Writes the events so far, once there are twice as many as at the last time: a process that is killed leaves a
    /// whole file with at least half of its events.
    void keep_up();
    /// Ends recording and writes the file. Returns what is in it, or why it could not be written, for people.
    std::string finish();

private:
    fs::path file_;
    Options options_;
    size_t saved_ = 1000;  ///< events in the file
    bool finished_ = false;

    size_t write() const;
};

}  // namespace cryolite
