#include "tests/cuda/recorder.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

namespace cryolite::test {

namespace {

using Work = CudaRecorder::Work;

struct Stream;

/// What streams are captured into; its work is done in the order in which it was put there.
struct Graph {
    Stream *origin = nullptr;
    std::vector<Work> work;
    std::map<Stream *, size_t> put, joined;  ///< of streams beside the first: their work, and what the first waits for
};

struct Event {
    std::shared_ptr<bool> done = std::make_shared<bool>(true);
    std::shared_ptr<double> time = std::make_shared<double>(0);
    Stream *of = nullptr;
    std::shared_ptr<Graph> captured = nullptr;  ///< it stands for a place in this one
    size_t after = 0;                           ///< of its stream's work there
};

struct Stream {
    int gpu, number;
    std::deque<Work> work;
    std::shared_ptr<Graph> capturing;

    /// False: what is next has to wait.
    bool run(const std::shared_ptr<bool> &until = nullptr) {
        while (!work.empty() && !(until && *until)) {
            const Work next = work.front();
            if (!next()) return false;
            work.pop_front();
        }
        return true;
    }
};

struct Module {
    std::string ptx;
    std::set<std::string> functions;
};

struct Memory {
    size_t bytes;
    int gpu;
};

CudaRecorder state;
std::recursive_mutex lock;  // of all that is here: threads of several workers call
std::condition_variable_any changed;
constexpr int most_gpus = 16;
int contexts[most_gpus];
thread_local int *current = nullptr;
std::map<uint64_t, Memory> memory;
std::set<Stream *> streams;

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_context = 201,
              not_found = 500, not_ready = 600, not_while_capturing = 900, unjoined = 904, isolated = 905;

using Hold = std::lock_guard<std::recursive_mutex>;

int current_gpu() { return current ? int(current - contexts) : 0; }

int enter(const std::string &name, const std::string &what = "", const void *stream = nullptr) {
    std::string words = what.empty() ? name : name + " " + what;
    state.calls.push_back(words);
    if (stream) words += " @" + std::to_string(static_cast<const Stream *>(stream)->number);
    state.of_gpu[current_gpu()].push_back(words);
    if (state.fails == name && --state.fails_at == 0) return state.code;
    return success;
}
int enter_context(const std::string &name, const std::string &what = "", const void *stream = nullptr) {
    const int code = enter(name, what, stream);
    return code == success && !current ? invalid_context : code;
}
bool capturing() {
    return std::ranges::any_of(streams, [](const Stream *s) { return s->gpu == current_gpu() && s->capturing; });
}

/// Whether anything could be done.
bool run_all() {
    bool any = false;
    for (bool more = true; more;) {
        more = false;
        for (Stream *s : streams) {
            const size_t before = s->work.size();
            s->run();
            more |= s->work.size() < before;
        }
        any |= more;
    }
    return any;
}

/// Into the stream, or into the graph that is captured from it.
int put(void *stream, Work work) {
    auto &s = *static_cast<Stream *>(stream);
    if (s.capturing) {
        s.capturing->put[&s]++;
        return s.capturing->work.push_back(std::move(work)), success;
    }
    s.work.push_back(std::move(work));
    if (!state.slow) run_all();
    changed.notify_all();
    return success;
}
int put_at_once(void *stream, std::function<void()> work) {
    return put(stream, [work = std::move(work)] { return work(), true; });
}

/// The host waits: other threads may have to put something first.
int wait_for(Stream &s, const std::shared_ptr<bool> &until = nullptr) {
    for (int turns = 0; !s.run(until);)
        if (!run_all() && (changed.wait_for(lock, std::chrono::milliseconds(10)), ++turns > 3000)) return 999;
    return success;
}

/// Of one GPU; -1: of any.
bool is_memory(uint64_t address, size_t bytes, int gpu) {
    auto at = memory.upper_bound(address);
    if (at == memory.begin()) return false;
    --at;
    return address + bytes <= at->first + at->second.bytes && (gpu < 0 || gpu == at->second.gpu);
}
bool is_memory(uint64_t address, size_t bytes, const void *stream) {
    return is_memory(address, bytes, static_cast<const Stream *>(stream)->gpu);
}

}  // namespace

CudaRecorder &CudaRecorder::get() { return state; }

void CudaRecorder::put_into(void *stream, std::function<void()> work) {
    const Hold hold(lock);
    put_at_once(stream, std::move(work));
}

void CudaRecorder::put_waiting(void *stream, const std::string &name, Work work) {
    const Hold hold(lock);
    enter(name, "", stream);
    put(stream, std::move(work));
}

std::unique_lock<std::recursive_mutex> CudaRecorder::hold() { return std::unique_lock(lock); }

void CudaRecorder::go_on() {
    const Hold hold(lock);
    run_all();
    changed.notify_all();
}

bool CudaRecorder::is_memory(const void *address, size_t bytes, const void *stream) {
    const Hold hold(lock);
    return stream ? test::is_memory(reinterpret_cast<uint64_t>(address), bytes, stream)
                  : test::is_memory(reinterpret_cast<uint64_t>(address), bytes, -1);
}

void CudaRecorder::reset() {
    const Hold hold(lock);
    const size_t kept = allocated;
    *this = {};
    allocated = kept;
}

int CudaRecorder::count(const std::string &name) const {
    return int(
        std::ranges::count_if(calls, [&](const std::string &c) { return c == name || c.starts_with(name + " "); }));
}

int CudaRecorder::waits() const {
    int n = 0;
    for (const char *name :
         {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"})
        n += count(name);
    return n;
}

std::string CudaRecorder::text() const {
    static const std::set<std::string> quiet = {"cuCtxSetCurrent", "cuEventQuery", "cuModuleGetFunction"};
    std::string text;
    for (const std::string &c : calls)
        if (!quiet.count(c.substr(0, c.find(' ')))) text += c + "\n";
    return text;
}

}  // namespace cryolite::test

using namespace cryolite::test;

extern "C" {

int cuDriverGetVersion(int *version) {
    const Hold hold(lock);
    return *version = state.version, enter("cuDriverGetVersion");
}
int cuInit(unsigned) {
    const Hold hold(lock);
    const int code = enter("cuInit");
    return code == success && state.devices == 0 ? no_device : code;
}
int cuDeviceGetCount(int *count) {
    const Hold hold(lock);
    return *count = state.devices, enter("cuDeviceGetCount");
}
int cuDeviceGet(int *device, int ordinal) {
    const Hold hold(lock);
    return *device = ordinal, enter("cuDeviceGet");
}
int cuDeviceGetName(char *name, int most, int) {
    const Hold hold(lock);
    std::strncpy(name, "Recorder", size_t(most));
    return enter("cuDeviceGetName");
}
int cuDeviceGetAttribute(int *value, int what, int) {
    const Hold hold(lock);
    *value = what == 75 ? state.capability / 10 : what == 76 ? state.capability % 10 : 0;
    return enter("cuDeviceGetAttribute");
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    const Hold hold(lock);
    return *context = &contexts[device], enter("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int) {
    const Hold hold(lock);
    return enter("cuDevicePrimaryCtxRelease");
}
int cuCtxSetCurrent(void *context) {
    const Hold hold(lock);
    return current = static_cast<int *>(context), enter("cuCtxSetCurrent");
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    const Hold hold(lock);
    *total = state.memory, *free = state.memory - std::min(state.memory, state.allocated);
    return enter_context("cuMemGetInfo");
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemAlloc", std::to_string(bytes))) return code;
    if (bytes == 0) return invalid_value;
    if (state.allocated + bytes > state.memory) return out_of_memory;
    void *p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    std::memset(p, 0xcd, bytes);
    *address = reinterpret_cast<uint64_t>(p);
    memory[*address] = {bytes, current_gpu()}, state.allocated += bytes;
    return success;
}
int cuMemFree_v2(uint64_t address) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemFree")) return code;
    const auto at = memory.find(address);
    if (at == memory.end()) return invalid_value;
    state.allocated -= at->second.bytes;
    memory.erase(at);
    std::free(reinterpret_cast<void *>(address));
    return success;
}
int cuMemHostAlloc(void **p, size_t bytes, unsigned) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemHostAlloc", std::to_string(bytes))) return code;
    return *p = std::malloc(bytes), success;
}
int cuMemFreeHost(void *p) {
    const Hold hold(lock);
    return std::free(p), enter_context("cuMemFreeHost");
}

int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemsetD8Async", std::to_string(bytes), stream)) return code;
    if (!is_memory(to, bytes, stream)) return invalid_value;
    return put_at_once(stream, [=] { std::memset(reinterpret_cast<void *>(to), byte, bytes); });
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemcpyHtoDAsync", std::to_string(bytes), stream)) return code;
    if (!is_memory(to, bytes, stream)) return invalid_value;
    return put_at_once(stream, [=] { std::memcpy(reinterpret_cast<void *>(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemcpyDtoHAsync", std::to_string(bytes), stream)) return code;
    if (!is_memory(from, bytes, stream)) return invalid_value;
    return put_at_once(stream, [=] { std::memcpy(to, reinterpret_cast<void *>(from), bytes); });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    const Hold hold(lock);
    if (const int code = enter_context("cuMemcpyDtoDAsync", std::to_string(bytes), stream)) return code;
    if (!is_memory(from, bytes, stream) || !is_memory(to, bytes, stream)) return invalid_value;
    return put_at_once(stream,
                       [=] { std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes); });
}

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

int cuModuleLoadDataEx(void **module, const void *ptx, unsigned, int *, void **values) {
    const Hold hold(lock);
    if (const int code = enter_context("cuModuleLoadDataEx"))
        return std::strcpy(static_cast<char *>(values[0]), "ptxas: an error"), code;
    if (capturing()) return not_while_capturing;
    return *module = new Module{static_cast<const char *>(ptx), {}}, success;
}
int cuModuleUnload(void *module) {
    const Hold hold(lock);
    return delete static_cast<Module *>(module), enter_context("cuModuleUnload");
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    const Hold hold(lock);
    if (const int code = enter_context("cuModuleGetFunction", name)) return code;
    auto &m = *static_cast<Module *>(module);
    if (m.ptx.find(name) == std::string::npos) return not_found;
    return *function = const_cast<std::string *>(&*m.functions.insert(name).first), success;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned,
                   void *stream, void **arguments, void **) {
    const Hold hold(lock);
    const std::string &name = *static_cast<std::string *>(function);
    if (const int code = enter_context("cuLaunchKernel", name, stream)) return code;
    if (x == 0 || y == 0 || z == 0) return invalid_value;
    const auto kernel = state.kernels.find(name);
    if (kernel == state.kernels.end()) return put_at_once(stream, [] {});
    std::vector<uint64_t> values;  // a driver copies them, too
    for (; *arguments; arguments++) std::memcpy(&values.emplace_back(0), *arguments, sizeof(uint32_t) * 2);
    return put_at_once(stream, [values, run = kernel->second] {
        std::vector<const void *> places;
        for (const uint64_t &v : values) places.push_back(&v);
        run(places);
    });
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

int cuGetErrorName(int code, const char **name) {
    const Hold hold(lock);
    *name = code == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == 218         ? "CUDA_ERROR_INVALID_PTX"
                                  : "CUDA_ERROR_UNKNOWN";
    return success;
}
int cuGetErrorString(int code, const char **words) {
    const Hold hold(lock);
    *words = code == out_of_memory ? "out of memory" : "an error of the recorder";
    return success;
}
}
