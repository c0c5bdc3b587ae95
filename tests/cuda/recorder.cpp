#include "tests/cuda/recorder.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

namespace cryolite::test {

namespace {

using Work = std::function<void()>;

struct Event {
    std::shared_ptr<bool> done = std::make_shared<bool>(true);
    std::shared_ptr<double> time = std::make_shared<double>(0);
    struct Stream *of = nullptr;
};

struct Graph {
    std::vector<Work> work;
};

struct Stream {
    std::deque<Work> work;
    std::unique_ptr<Graph> capturing;

    void run(const std::shared_ptr<bool> &until = nullptr) {
        while (!work.empty() && !(until && *until)) {
            const Work next = std::move(work.front());
            work.pop_front();
            next();
        }
    }
};

struct Module {
    std::string ptx;
    std::set<std::string> functions;
};

CudaRecorder state;
thread_local void *current = nullptr;
std::map<uint64_t, size_t> memory;
std::set<Stream *> streams;

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_context = 201,
              not_found = 500, not_ready = 600, not_while_capturing = 900;

int enter(const std::string &name, const std::string &what = "") {
    state.calls.push_back(what.empty() ? name : name + " " + what);
    if (state.fails == name && --state.fails_at == 0) return state.code;
    return success;
}
int enter_context(const std::string &name, const std::string &what = "") {
    const int code = enter(name, what);
    return code == success && !current ? invalid_context : code;
}
bool capturing() {
    return std::ranges::any_of(streams, [](const Stream *s) { return s->capturing != nullptr; });
}

/// Into the stream, or into the graph that is captured from it.
int put(void *stream, Work work) {
    auto &s = *static_cast<Stream *>(stream);
    if (s.capturing) return s.capturing->work.push_back(std::move(work)), success;
    s.work.push_back(std::move(work));
    if (!state.slow) s.run();
    return success;
}

bool is_memory(uint64_t address, size_t bytes) {
    auto at = memory.upper_bound(address);
    if (at == memory.begin()) return false;
    --at;
    return address + bytes <= at->first + at->second;
}

}  // namespace

CudaRecorder &CudaRecorder::get() { return state; }

void CudaRecorder::put_into(void *stream, std::function<void()> work) { put(stream, std::move(work)); }

bool CudaRecorder::is_memory(const void *address, size_t bytes) {
    return test::is_memory(reinterpret_cast<uint64_t>(address), bytes);
}

void CudaRecorder::reset() {
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

int cuDriverGetVersion(int *version) { return *version = state.version, enter("cuDriverGetVersion"); }
int cuInit(unsigned) {
    const int code = enter("cuInit");
    return code == success && state.devices == 0 ? no_device : code;
}
int cuDeviceGetCount(int *count) { return *count = state.devices, enter("cuDeviceGetCount"); }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, enter("cuDeviceGet"); }
int cuDeviceGetName(char *name, int most, int) {
    std::strncpy(name, "Recorder", size_t(most));
    return enter("cuDeviceGetName");
}
int cuDeviceGetAttribute(int *value, int what, int) {
    *value = what == 75 ? state.capability / 10 : what == 76 ? state.capability % 10 : 0;
    return enter("cuDeviceGetAttribute");
}
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &state, enter("cuDevicePrimaryCtxRetain"); }
int cuDevicePrimaryCtxRelease_v2(int) { return enter("cuDevicePrimaryCtxRelease"); }
int cuCtxSetCurrent(void *context) { return current = context, enter("cuCtxSetCurrent"); }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = state.memory, *free = state.memory - std::min(state.memory, state.allocated);
    return enter_context("cuMemGetInfo");
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (const int code = enter_context("cuMemAlloc", std::to_string(bytes))) return code;
    if (bytes == 0) return invalid_value;
    if (state.allocated + bytes > state.memory) return out_of_memory;
    void *p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    std::memset(p, 0xcd, bytes);
    *address = reinterpret_cast<uint64_t>(p);
    memory[*address] = bytes, state.allocated += bytes;
    return success;
}
int cuMemFree_v2(uint64_t address) {
    if (const int code = enter_context("cuMemFree")) return code;
    const auto at = memory.find(address);
    if (at == memory.end()) return invalid_value;
    state.allocated -= at->second;
    memory.erase(at);
    std::free(reinterpret_cast<void *>(address));
    return success;
}
int cuMemHostAlloc(void **p, size_t bytes, unsigned) {
    if (const int code = enter_context("cuMemHostAlloc", std::to_string(bytes))) return code;
    return *p = std::malloc(bytes), success;
}
int cuMemFreeHost(void *p) { return std::free(p), enter_context("cuMemFreeHost"); }

int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
    if (const int code = enter_context("cuMemsetD8Async", std::to_string(bytes))) return code;
    if (!is_memory(to, bytes)) return invalid_value;
    return put(stream, [=] { std::memset(reinterpret_cast<void *>(to), byte, bytes); });
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    if (const int code = enter_context("cuMemcpyHtoDAsync", std::to_string(bytes))) return code;
    if (!is_memory(to, bytes)) return invalid_value;
    return put(stream, [=] { std::memcpy(reinterpret_cast<void *>(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    if (const int code = enter_context("cuMemcpyDtoHAsync", std::to_string(bytes))) return code;
    if (!is_memory(from, bytes)) return invalid_value;
    return put(stream, [=] { std::memcpy(to, reinterpret_cast<void *>(from), bytes); });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    if (const int code = enter_context("cuMemcpyDtoDAsync", std::to_string(bytes))) return code;
    if (!is_memory(from, bytes) || !is_memory(to, bytes)) return invalid_value;
    return put(stream, [=] { std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes); });
}

int cuStreamCreate(void **stream, unsigned) {
    if (const int code = enter_context("cuStreamCreate")) return code;
    return *stream = *streams.insert(new Stream).first, success;
}
int cuStreamDestroy_v2(void *stream) {
    streams.erase(static_cast<Stream *>(stream));
    delete static_cast<Stream *>(stream);
    return enter_context("cuStreamDestroy");
}
int cuStreamSynchronize(void *stream) {
    if (const int code = enter_context("cuStreamSynchronize")) return code;
    if (capturing()) return not_while_capturing;
    return static_cast<Stream *>(stream)->run(), success;
}
int cuStreamWaitEvent(void *stream, void *event, unsigned) {
    if (const int code = enter_context("cuStreamWaitEvent")) return code;
    const Event e = *static_cast<Event *>(event);
    return put(stream, [e] {
        if (e.of) e.of->run(e.done);
    });
}
int cuEventCreate(void **event, unsigned) {
    if (const int code = enter_context("cuEventCreate")) return code;
    return *event = new Event, success;
}
int cuEventDestroy_v2(void *event) { return delete static_cast<Event *>(event), enter_context("cuEventDestroy"); }
int cuEventRecord(void *event, void *stream) {
    if (const int code = enter_context("cuEventRecord")) return code;
    auto &e = *static_cast<Event *>(event);
    e.done = std::make_shared<bool>(false), e.time = std::make_shared<double>(0), e.of = static_cast<Stream *>(stream);
    return put(stream, [done = e.done, time = e.time] { *done = true, *time = state.clock; });
}
int cuEventElapsedTime(float *milliseconds, void *before, void *after) {
    if (const int code = enter_context("cuEventElapsedTime")) return code;
    const auto &a = *static_cast<Event *>(before), &b = *static_cast<Event *>(after);
    if (!*a.done || !*b.done) return not_ready;
    return *milliseconds = float(1e3 * (*b.time - *a.time)), success;
}
int cuEventQuery(void *event) {
    if (const int code = enter_context("cuEventQuery")) return code;
    return *static_cast<Event *>(event)->done ? success : not_ready;
}
int cuEventSynchronize(void *event) {
    if (const int code = enter_context("cuEventSynchronize")) return code;
    if (capturing()) return not_while_capturing;
    const Event e = *static_cast<Event *>(event);
    if (e.of) e.of->run(e.done);
    return success;
}

int cuModuleLoadDataEx(void **module, const void *ptx, unsigned, int *, void **values) {
    if (const int code = enter_context("cuModuleLoadDataEx"))
        return std::strcpy(static_cast<char *>(values[0]), "ptxas: an error"), code;
    if (capturing()) return not_while_capturing;
    return *module = new Module{static_cast<const char *>(ptx), {}}, success;
}
int cuModuleUnload(void *module) { return delete static_cast<Module *>(module), enter_context("cuModuleUnload"); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    if (const int code = enter_context("cuModuleGetFunction", name)) return code;
    auto &m = *static_cast<Module *>(module);
    if (m.ptx.find(name) == std::string::npos) return not_found;
    return *function = const_cast<std::string *>(&*m.functions.insert(name).first), success;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned,
                   void *stream, void **arguments, void **) {
    const std::string &name = *static_cast<std::string *>(function);
    if (const int code = enter_context("cuLaunchKernel", name)) return code;
    if (x == 0 || y == 0 || z == 0) return invalid_value;
    const auto kernel = state.kernels.find(name);
    if (kernel == state.kernels.end()) return put(stream, [] {});
    std::vector<uint64_t> values;  // a driver copies them, too
    for (; *arguments; arguments++) std::memcpy(&values.emplace_back(0), *arguments, sizeof(uint32_t) * 2);
    return put(stream, [values, run = kernel->second] {
        std::vector<const void *> places;
        for (const uint64_t &v : values) places.push_back(&v);
        run(places);
    });
}

int cuStreamBeginCapture_v2(void *stream, int) {
    if (const int code = enter_context("cuStreamBeginCapture")) return code;
    return static_cast<Stream *>(stream)->capturing = std::make_unique<Graph>(), success;
}
int cuStreamEndCapture(void *stream, void **graph) {
    auto &s = *static_cast<Stream *>(stream);
    return *graph = s.capturing.release(), enter_context("cuStreamEndCapture");
}
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    if (const int code = enter_context("cuGraphInstantiate")) return code;
    return *executable = new Graph(*static_cast<Graph *>(graph)), success;
}
int cuGraphLaunch(void *executable, void *stream) {
    if (const int code = enter_context("cuGraphLaunch")) return code;
    return put(stream, [g = *static_cast<Graph *>(executable)] {
        for (const Work &w : g.work) w();
    });
}
int cuGraphDestroy(void *graph) { return delete static_cast<Graph *>(graph), enter_context("cuGraphDestroy"); }
int cuGraphExecDestroy(void *graph) { return delete static_cast<Graph *>(graph), enter_context("cuGraphExecDestroy"); }

int cuGetErrorName(int code, const char **name) {
    *name = code == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == 218         ? "CUDA_ERROR_INVALID_PTX"
                                  : "CUDA_ERROR_UNKNOWN";
    return success;
}
int cuGetErrorString(int code, const char **words) {
    *words = code == out_of_memory ? "out of memory" : "an error of the recorder";
    return success;
}
}
