#include "runtime/system/trace.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

constexpr std::string_view trace_heading = R"({"displayTimeUnit":"ms",)";  // by which a file is recognised as a trace

int64_t nanoseconds(TraceClock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

struct TraceEvent {
    const char *category;
    const std::string *name;
    int64_t begin, end;  ///< nanoseconds
    int64_t number;
};

/// The events of one thread at a time. Only that thread takes the lock, except while the file is written.
struct Track {
    std::mutex lock;
    std::string thread;
    std::map<std::string, int, std::less<>> names;  ///< that events point to
    std::deque<TraceEvent> events;
    bool may_join = false;      ///< no span has begun since the last event
    std::weak_ptr<void> owner;  ///< the thread lives
};

/// Never destroyed: threads that outlive a trace may end a span.
struct Recorder {
    std::mutex lock;
    std::vector<std::shared_ptr<Track>> tracks;
    std::map<std::string, std::string, std::less<>> notes;
    std::atomic<uint64_t> trace{0};  ///< the number of the current trace
    std::atomic<int64_t> left{0};    ///< events that still fit
    std::atomic<int64_t> step{0};    ///< the last step that has begun
    std::atomic<bool> full{false};
};
Recorder &recorder() {
    static auto *const it = new Recorder;
    return *it;
}

struct Own {
    std::shared_ptr<int> alive = std::make_shared<int>();
    std::string name;
    uint64_t trace = 0;
    std::shared_ptr<Track> track;
};
Own &own() {
    static thread_local Own it;
    return it;
}

/// The track of the calling thread: that of an earlier thread of its name, which has ended, or a new one.
Track &own_track() {
    Own &me = own();
    Recorder &r = recorder();
    if (me.track && me.trace == r.trace.load(std::memory_order_acquire)) return *me.track;
    const std::lock_guard guard(r.lock);
    me.trace = r.trace, me.track = nullptr;
    for (auto &t : r.tracks)
        if (t->thread == thread_name() && t->owner.expired()) me.track = t;
    if (!me.track) {
        me.track = r.tracks.emplace_back(std::make_shared<Track>());
        me.track->thread = thread_name();
    }
    me.track->owner = me.alive;
    return *me.track;
}

const std::string *kept(Track &track, std::string_view name) {
    auto at = track.names.find(name);
    if (at == track.names.end()) at = track.names.emplace(name, 0).first;
    return &at->first;
}

/// Reserves the place of an event; false: none is left. The last place ends recording.
bool take_place() {
    Recorder &r = recorder();
    const int64_t left = r.left.fetch_sub(1, std::memory_order_relaxed);
    if (left == 1) r.full = true, trace_on = false;
    return left > 0;
}

std::string json_text(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Microseconds.
std::string time_text(int64_t nanoseconds) { return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000); }

std::string metadata(const char *what, int process, size_t thread, std::string_view key, const std::string &value) {
    return fmt::format("{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"{}\":{}}}}}", what, process,
                       thread, key, value);
}

std::string event_text(const TraceEvent &e, const std::string &name, int process, size_t thread,
                       const std::string &note) {
    std::string args = e.number < 0 ? "" : fmt::format("\"number\":{}", e.number);
    if (!note.empty()) args += fmt::format("{}\"stages\":{}", args.empty() ? "" : ",", note);
    return fmt::format(",\n{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},"
                       "\"args\":{{{}}}}}",
                       name, e.category, process, thread, time_text(e.begin), time_text(e.end - e.begin), args);
}

bool is_trace(const fs::path &path) {
    const InputFile file(path);
    std::string begin(std::min<uint64_t>(file.size(), trace_heading.size()), ' ');
    file.read(0, std::as_writable_bytes(std::span(begin)));
    return begin == trace_heading;
}

}  // namespace

void name_thread(std::string name) { own().name = std::move(name); }

const std::string &thread_name() {
    std::string &name = own().name;
    if (name.empty()) name = gettid() == getpid() ? "main" : fmt::format("thread {}", gettid());
    return name;
}

void TraceSpan::begin(const char *category, std::string_view name, int64_t number) {
    if (name.empty() || !take_place()) return;
    category_ = category, name_ = name, number_ = number;
    if (std::string_view(category) == "step") recorder().step = number;
    Track &track = own_track();
    const std::lock_guard guard(track.lock);
    track.may_join = false;
    began_ = TraceClock::now();
}

void TraceSpan::end() {
    const int64_t now = nanoseconds(TraceClock::now());
    Track &track = own_track();
    const std::lock_guard guard(track.lock);
    track.events.push_back({category_, kept(track, name_), nanoseconds(began_), now, number_});
    track.may_join = false;
}

void trace_since(const char *category, std::string_view name, TraceClock::time_point began, bool joins) {
    if (!tracing() || name.empty()) return;
    const int64_t begin = nanoseconds(began), now = nanoseconds(TraceClock::now());
    Track &track = own_track();
    const std::lock_guard guard(track.lock);
    if (joins && track.may_join) {
        TraceEvent &last = track.events.back();
        if (last.category == std::string_view(category) && *last.name == name && begin - last.end < 2000) {
            last.end = now;
            return;
        }
    }
    if (now - begin < 1000 || !take_place()) return;
    track.events.push_back({category, kept(track, name), begin, now, -1});
    track.may_join = joins;
}

void trace_note(std::string_view name, std::string_view words) {
    if (!tracing()) return;
    Recorder &r = recorder();
    const std::lock_guard guard(r.lock);
    r.notes.insert_or_assign(std::string(name), json_text(words));
}

TracePause::~TracePause() {
    if (was_on_ && !recorder().full) trace_on = true;
}

Trace::Trace(fs::path file, Options options) : file_(std::move(file)), options_(std::move(options)) {
    if (tracing()) fail("{}: another trace is being recorded: end it first", file_.string());
    if (is_there(file_) && !is_trace(file_))
        fail("{} is there and is no trace: name another file, or remove it", file_.string());
    Recorder &r = recorder();
    {
        const std::lock_guard guard(r.lock);
        r.tracks.clear(), r.notes.clear();
        r.trace++, r.left = int64_t(options_.most_events), r.full = false, r.step = 0;
    }
    write();
    own_track();  // the first track of the file
    trace_on = true;
}

Trace::~Trace() {
    if (!finished_) finish();
}

void Trace::keep_up() {
    const size_t events = options_.most_events - size_t(std::max<int64_t>(recorder().left, 0));
    if (events < 2 * saved_ && (!recorder().full || saved_ >= options_.most_events)) return;
    saved_ = events;
    const TraceSpan span("run", "write the trace");
    try {
        write();
    } catch (const Error &e) {  // it does not end the run
        tell("{}", e.what());
    }
}

std::string Trace::finish() {
    trace_on = false, finished_ = true;
    const Recorder &r = recorder();
    size_t events = 0;
    try {
        events = write();
    } catch (const Error &e) {
        return fmt::format("the trace is lost: {}", e.what());
    }
    return fmt::format("trace: {}: {} events{}; ui.perfetto.dev opens it", file_.string(), events,
                       r.full ? fmt::format(", which are all that fit in: it ends in step {}", r.step.load()) : "");
}

/// The number of events written.
size_t Trace::write() const {
    Recorder &r = recorder();
    std::unique_lock guard(r.lock);
    const auto tracks = r.tracks;
    const auto notes = r.notes;
    guard.unlock();
    size_t events = 0;
    std::string text = std::string(trace_heading) +
                       fmt::format("\"otherData\":{{\"cut\":{}}},\"traceEvents\":[\n", r.full.load()) +
                       metadata("process_name", options_.process, 0, "name", json_text(options_.name));
    for (size_t t = 0; t < tracks.size(); t++) {
        Track &track = *tracks[t];
        const std::lock_guard its(track.lock);
        text += ",\n" + metadata("thread_name", options_.process, t + 1, "name", json_text(track.thread));
        text += ",\n" + metadata("thread_sort_index", options_.process, t + 1, "sort_index", fmt::format("{}", t));
        std::map<const std::string *, std::string> names;
        for (const TraceEvent &e : track.events) {
            std::string &name = names[e.name];
            if (name.empty()) name = json_text(*e.name);
            auto note = e.category == std::string_view("kernel") ? notes.find(*e.name) : notes.end();
            text += event_text(e, name, options_.process, t + 1, note == notes.end() ? "" : note->second);
        }
        events += track.events.size();
    }
    write_file_atomic(file_, text + "\n]}\n");
    return events;
}

}  // namespace cryolite
