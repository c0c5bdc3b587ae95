// Of the recording driver: streams, events and graphs.

#include "tests/cuda/recorder_streams.h"

using namespace cryolite::test;
using namespace cryolite::test::recording;

extern "C" {

int cuStreamCreate(void **stream, unsigned) {
    const Hold hold(lock);
    if (const int code = enter_context("cuStreamCreate")) return code;
    const auto same = [](const Stream *s) { return s->gpu == current_gpu(); };
    int number = 0;
    while (std::ranges::any_of(streams, [&](const Stream *s) { return same(s) && s->number == number; })) number++;
    return *stream = *streams.insert(new Stream{current_gpu(), number, {}, {}}).first, success;
}
int cuStreamDestroy_v2(void *stream) {
    const Hold hold(lock);
    streams.erase(static_cast<Stream *>(stream));
    delete static_cast<Stream *>(stream);
    return enter_context("cuStreamDestroy");
}
int cuStreamSynchronize(void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuStreamSynchronize")) return code;
    if (capturing()) return not_while_capturing;
    return wait_for(*static_cast<Stream *>(stream));
}
int cuStreamWaitEvent(void *stream, void *event, unsigned) {
    const Hold hold(lock);
    if (const int code = enter_context("cuStreamWaitEvent", "", stream)) return code;
    const Event e = *static_cast<Event *>(event);
    auto &s = *static_cast<Stream *>(stream);
    if (e.captured) {
        if (e.captured->origin->capturing != e.captured || (s.capturing && s.capturing != e.captured)) return isolated;
        if (&s == e.captured->origin) e.captured->joined[e.of] = e.after;
        return s.capturing = e.captured, success;
    }
    if (s.capturing) return isolated;
    return put(stream, [e] {
        if (e.of) e.of->run(e.done);
        return *e.done;
    });
}
int cuEventCreate(void **event, unsigned) {
    const Hold hold(lock);
    if (const int code = enter_context("cuEventCreate")) return code;
    return *event = new Event, success;
}
int cuEventDestroy_v2(void *event) {
    const Hold hold(lock);
    return delete static_cast<Event *>(event), enter_context("cuEventDestroy");
}
int cuEventRecord(void *event, void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuEventRecord", "", stream)) return code;
    auto &e = *static_cast<Event *>(event);
    auto &s = *static_cast<Stream *>(stream);
    e.done = std::make_shared<bool>(false), e.time = std::make_shared<double>(0), e.of = &s;
    e.captured = s.capturing, e.after = s.capturing ? s.capturing->put[&s] : 0;
    if (s.capturing) return success;
    return put_at_once(stream, [done = e.done, time = e.time] { *done = true, *time = state.clock; });
}
int cuEventElapsedTime(float *milliseconds, void *before, void *after) {
    const Hold hold(lock);
    if (const int code = enter_context("cuEventElapsedTime")) return code;
    const auto &a = *static_cast<Event *>(before), &b = *static_cast<Event *>(after);
    if (!*a.done || !*b.done) return not_ready;
    return *milliseconds = float(1e3 * (*b.time - *a.time)), success;
}
int cuEventQuery(void *event) {
    const Hold hold(lock);
    if (const int code = enter_context("cuEventQuery")) return code;
    if (static_cast<Event *>(event)->captured) return not_while_capturing;
    return *static_cast<Event *>(event)->done ? success : not_ready;
}
int cuEventSynchronize(void *event) {
    const Hold hold(lock);
    if (const int code = enter_context("cuEventSynchronize")) return code;
    if (capturing()) return not_while_capturing;
    const Event e = *static_cast<Event *>(event);
    return e.of ? wait_for(*e.of, e.done) : success;
}

int cuStreamBeginCapture_v2(void *stream, int) {
    const Hold hold(lock);
    if (const int code = enter_context("cuStreamBeginCapture", "", stream)) return code;
    auto &s = *static_cast<Stream *>(stream);
    s.capturing = std::make_shared<Graph>();
    return s.capturing->origin = &s, success;
}
int cuStreamEndCapture(void *stream, void **graph) {
    const Hold hold(lock);
    auto &s = *static_cast<Stream *>(stream);
    const std::shared_ptr<Graph> made = s.capturing;
    bool all_joined = true;
    for (auto &[other, puts] : made->put) all_joined &= other == &s || made->joined[other] == puts;
    for (Stream *other : streams)
        if (other->capturing == made) other->capturing.reset();
    const int code = enter_context("cuStreamEndCapture", "", stream);
    *graph = new Graph(*made);
    made->work.clear();  // events that were recorded meanwhile keep it
    return code == success && !all_joined ? unjoined : code;
}
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    const Hold hold(lock);
    if (const int code = enter_context("cuGraphInstantiate")) return code;
    return *executable = new Graph(*static_cast<Graph *>(graph)), success;
}
int cuGraphLaunch(void *executable, void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuGraphLaunch", "", stream)) return code;
    for (const Work &w : static_cast<Graph *>(executable)->work) put(stream, w);
    return success;
}
int cuGraphDestroy(void *graph) {
    const Hold hold(lock);
    return delete static_cast<Graph *>(graph), enter_context("cuGraphDestroy");
}
int cuGraphExecDestroy(void *graph) {
    const Hold hold(lock);
    return delete static_cast<Graph *>(graph), enter_context("cuGraphExecDestroy");
}
}
