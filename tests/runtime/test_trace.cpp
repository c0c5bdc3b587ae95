// Traces: the format, what lies within what, bounds, and files that stay whole.

#include <csignal>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "runtime/data/loader.h"
#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/system/trace.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

namespace {

/// The events with a duration, after checking what a viewer needs of all of them.
std::vector<json> spans_of(const fs::path &file) {
    const json trace = json::parse(read_file(file));
    std::vector<json> spans;
    std::map<int, std::string> threads;
    for (const json &e : trace.at("traceEvents")) {
        CHECK(e.at("name").is_string());
        CHECK(e.at("pid").is_number());
        if (e.at("ph") == "M") {
            if (e["name"] == "thread_name") threads[e.at("tid")] = e.at("args").at("name");
            continue;
        }
        CHECK(e.at("ph") == "X");
        CHECK(e.at("ts").get<double>() > 0);
        CHECK(e.at("dur").get<double>() >= 0);
        spans.push_back(e);
    }
    for (json &e : spans) {
        REQUIRE(threads.count(e.at("tid")));
        e["thread"] = threads[e["tid"]];
    }
    return spans;
}

int64_t end_of(const json &e) { return std::llround(1e3 * (e["ts"].get<double>() + e["dur"].get<double>())); }
int64_t begin_of(const json &e) { return std::llround(1e3 * e["ts"].get<double>()); }

/// Of each thread, every two spans lie one after the other or one in the other.
void check_nesting(std::vector<json> spans) {
    std::ranges::sort(spans, [](const json &a, const json &b) {
        return std::pair(begin_of(a), -end_of(a)) < std::pair(begin_of(b), -end_of(b));
    });
    std::map<int, std::vector<int64_t>> open;
    for (const json &e : spans) {
        std::vector<int64_t> &ends = open[e["tid"]];
        while (!ends.empty() && ends.back() <= begin_of(e)) ends.pop_back();
        CAPTURE(e.dump());
        if (!ends.empty()) CHECK(end_of(e) <= ends.back());
        ends.push_back(end_of(e));
    }
}

size_t count(const std::vector<json> &spans, const std::string &category, const std::string &name) {
    return size_t(
        std::ranges::count_if(spans, [&](const json &e) { return e["cat"] == category && e["name"] == name; }));
}

void spin(int microseconds) {
    const auto until = TraceClock::now() + std::chrono::microseconds(microseconds);
    while (TraceClock::now() < until) {
    }
}

}  // namespace

TEST_CASE("trace: threads have names, spans lie within each other, and names are escaped") {
    const Scratch scratch;
    Trace trace(scratch / "t.json", {.process = 3, .name = "a \"process\""});
    trace_note("h.0 <\"\\\n\xff>", "h.0: root");
    {
        const TraceSpan step("step", "step", 7);
        const TraceSpan kernel("kernel", "h.0 <\"\\\n\xff>");
        const TraceSpan unnamed("kernel", "");
        const TracePause pause;
        const TraceSpan paused("kernel", "paused");
        spin(5);
    }
    for (int k = 0; k < 2; k++)  // two threads, one after the other, are one line
        std::thread([] {
            name_thread("loader");
            const TraceSpan span("loader", "micro-batch", 1);
        }).join();
    CHECK(contains(trace.finish(), "t.json: 4 events; ui.perfetto.dev"));
    CHECK(!tracing());
    const auto spans = spans_of(scratch / "t.json");
    REQUIRE(spans.size() == 4);
    check_nesting(spans);
    CHECK(count(spans, "step", "step") == 1);
    const auto kernel = std::ranges::find(spans, "kernel", [](const json &e) { return e["cat"]; });
    CHECK(kernel->at("name") == "h.0 <\"\\\n\xef\xbf\xbd>");
    CHECK(kernel->at("args").at("stages") == "h.0: root");
    CHECK(kernel->at("thread") == "main");
    CHECK(kernel->at("pid") == 3);
    CHECK(spans[2]["thread"] == "loader");
    CHECK(spans[2]["tid"] == spans[3]["tid"]);
}

TEST_CASE("trace: of the task scheduler each kernel once, what threads take of its loops, and waits") {
    const Scratch scratch;
    struct Work {
        TaskScheduler scheduler{3};
        static int one(void *, int, uint8_t *) { return spin(20), 0; }
        static int kernel(void **argv) { return static_cast<Work *>(argv[0])->scheduler.loop(one, 0, 40, nullptr); }
    } work;
    void *argv[] = {&work};
    const std::string names[] = {"a", "b", "c", "d", "", "f"};
    std::vector<KernelCall> calls;
    for (size_t i = 0; i < 6; i++) calls.push_back({Work::kernel, argv, i > 0, {}, {}, names[i]});
    for (size_t i = 0; i < 5; i++) calls[i].next = {int(i) + 1};
    work.scheduler.run(calls);
    Trace trace(scratch / "t.json");
    constexpr int runs = 20;
    for (int k = 0; k < runs; k++) CHECK(work.scheduler.run(calls).call < 0);
    trace.finish();
    const auto spans = spans_of(scratch / "t.json");
    check_nesting(spans);
    for (const std::string &name : names) CHECK(count(spans, "kernel", name) == (name.empty() ? 0 : runs));
    size_t loops = 0, waits = 0;
    for (const json &e : spans) {
        loops += e["cat"] == "loop", waits += e["cat"] == "wait";
        CHECK((e["thread"] == "main" || e["thread"] == "thread 1" || e["thread"] == "thread 2"));
        if (e["cat"] == "wait") CHECK(e["name"] == "wait for threads");
    }
    CHECK(loops > 0);
    CHECK(loops < runs * 6 * 40);  // neighbouring iterations are one
    CHECK(waits > 0);
    TaskScheduler alone(1);
    Trace other(scratch / "u.json");
    void *its[] = {&alone};
    KernelCall call{[](void **) { return 0; }, its, 0, {}, {}, "alone"};
    alone.run({&call, 1});
    other.finish();
    CHECK(count(spans_of(scratch / "u.json"), "kernel", "alone") == 1);
}

TEST_CASE("trace: the loader's work, and who waits for it") {
    const Scratch scratch;
    struct Slow : BatchSource {
        void allocate(Batch &) const override {}
        void fill(uint64_t, Batch &) override { spin(3000); }
    };
    Trace trace(scratch / "t.json");
    {
        Loader loader(std::make_unique<Slow>(), 5);
        loader.next(), loader.next();
    }
    trace.finish();
    const auto spans = spans_of(scratch / "t.json");
    CHECK(count(spans, "wait", "wait for the loader") >= 1);
    CHECK(count(spans, "loader", "micro-batch") >= 2);
    for (const json &e : spans)
        if (e["cat"] == "loader") {
            CHECK(e["thread"] == "loader");
            CHECK(e["args"]["number"].get<int>() >= 5);
        } else {
            CHECK(e["thread"] == "main");
        }
}

TEST_CASE("trace: where it is full recording ends, and it says in which step") {
    const Scratch scratch;
    Trace trace(scratch / "t.json", {.most_events = 100});
    for (int step = 1; step <= 1000; step++) {
        const TraceSpan span("step", "step", step);
        for (int k = 0; k < 9; k++) trace_since("loop", "k", TraceClock::now() - std::chrono::microseconds(2));
    }
    CHECK(!tracing());
    CHECK(contains(trace.finish(), "100 events, which are all that fit in: it ends in step 10"));
    CHECK(spans_of(scratch / "t.json").size() == 100);
    CHECK(json::parse(read_file(scratch / "t.json"))["otherData"]["cut"] == true);
}

TEST_CASE("trace: a killed process leaves a whole file with half of its events at least") {
    const Scratch scratch;
    const int status = in_child([&] {
        Trace trace(scratch / "t.json");
        for (int step = 1; step <= 10'000; step++) {
            { const TraceSpan span("step", "step", step); }
            trace.keep_up();
        }
        raise(SIGKILL);
    });
    CHECK(status == 128 + SIGKILL);
    CHECK(spans_of(scratch / "t.json").size() > 5000);
    CHECK(in_child([&] {
              Trace trace(scratch / "u.json");
              raise(SIGKILL);
          }) == 128 + SIGKILL);
    CHECK(spans_of(scratch / "u.json").empty());
}

TEST_CASE("trace: what cannot be written is said at the start; what is no trace is not replaced") {
    const Scratch scratch;
    CHECK_ERROR(Trace(scratch / "none" / "t.json"), "none/t.json");
    write_plainly(scratch / "model.safetensors", "weights");
    CHECK_ERROR(Trace(scratch / "model.safetensors"), "is there and is no trace: name another file");
    CHECK(read_file(scratch / "model.safetensors") == "weights");
    CHECK(!tracing());
    { const Trace first(scratch / "t.json"); }
    Trace again(scratch / "t.json");
    CHECK_ERROR(Trace(scratch / "u.json"), "another trace is being recorded");
    fs::remove_all(scratch.path);  // as a disk that goes away
    CHECK(contains(again.finish(), "the trace is lost: "));
}

}  // namespace cryolite::test
