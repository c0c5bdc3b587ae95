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

/// How the calling thread is called in a trace, whenever that begins. A thread without a name is "main", or numbered.
void name_thread(std::string name);
const std::string &thread_name();

/// Something that the calling thread does while this object lives. Spans of a thread lie within each other.
class TraceSpan {
public:
    /// `category`: a literal, by which a viewer filters: step, pass, kernel, loop, wait, loader, checkpoint, run. An
    /// empty name is no span. `number`: what it is the span of, a step or a micro-batch; -1: nothing that is counted.
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
    std::string_view name_;           ///< whoever made the span keeps it
    int64_t number_ = -1;
    TraceClock::time_point began_;
};

/// A span that has ended now, where tracing is on. Spans shorter than a microsecond are left out. `joins`: it is one
/// with the thread's last span, where that has the same name and ended less than two microseconds ago.
void trace_since(const char *category, std::string_view name, TraceClock::time_point began, bool joins = false);
/// What a viewer shows beside each span of this name.
void trace_note(std::string_view name, std::string_view words);

/// Nothing is recorded while it lives, but for spans that have begun: for what goes on and on alike.
class TracePause {
public:
    TracePause() : was_on_(trace_on.exchange(false)) {}
    ~TracePause();
    TracePause(const TracePause &) = delete;

private:
    const bool was_on_;
};

/// Records from its construction to its end: one at a time.
class Trace {
public:
    struct Options {
        size_t most_events = 250'000;   ///< where they are full, recording ends: 40 bytes each, 120 in the file
        int process = 0;                ///< its number in the file: the rank
        std::string name = "cryolite";  ///< of the process
    };
    /// Writes a trace without events. Errors: it cannot be written; a file that is there and is no trace.
    explicit Trace(fs::path file) : Trace(std::move(file), Options()) {}
    Trace(fs::path file, Options options);
    /// As `finish`, without words.
    ~Trace();
    Trace(const Trace &) = delete;

    /// Writes the events so far, where there are twice as many as at the last time: a process that is killed leaves a
    /// file that is whole, with half of its events at least.
    void keep_up();
    /// Ends recording and writes the file. What is in it, or why it could not be written, for people.
    std::string finish();

private:
    fs::path file_;
    Options options_;
    size_t saved_ = 1000;  ///< events
    bool finished_ = false;

    size_t write() const;
};

}  // namespace cryolite
