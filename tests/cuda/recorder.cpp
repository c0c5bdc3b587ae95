#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/cuda/recorder_streams.h"

namespace cryolite::test {

using namespace recording;

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

bool CudaRecorder::is_captured(const void *stream) {
    const Hold hold(lock);
    return static_cast<const Stream *>(stream)->capturing != nullptr;
}

std::unique_lock<std::recursive_mutex> CudaRecorder::hold() { return std::unique_lock(lock); }

void CudaRecorder::go_on() {
    const Hold hold(lock);
    run_all();
    changed.notify_all();
}

bool CudaRecorder::is_memory(const void *address, size_t bytes, const void *stream) {
    const Hold hold(lock);
    return stream ? recording::is_memory(reinterpret_cast<uint64_t>(address), bytes, stream)
                  : recording::is_memory(reinterpret_cast<uint64_t>(address), bytes, -1);
}

std::pair<uint64_t, size_t> CudaRecorder::memory_of(uint64_t address) {
    const Hold hold(lock);
    if (!recording::is_memory(address, 1, -1)) return {0, 0};
    const auto at = --recording::memory.upper_bound(address);
    return {at->first, at->second.bytes};
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
    static const std::set<std::string> quiet = {"cuCtxSetCurrent", "cuEventQuery", "cuModuleGetFunction",
                                                "cuFuncGetAttribute"};
    std::string text;
    for (const std::string &c : calls)
        if (!quiet.count(c.substr(0, c.find(' ')))) text += c + "\n";
    return text;
}

namespace {

/// The arguments of 8 bytes of an entry, by its PTX: those of 4 bytes lie where no 8 may be read.
std::vector<uint64_t> addresses(const std::string &ptx, const std::string &entry, void **arguments) {
    std::vector<uint64_t> list;
    const size_t begin = ptx.find(".entry " + entry + "(");
    if (begin == std::string::npos) return list;
    const std::string parameters = ptx.substr(begin, ptx.find(')', begin) - begin);
    for (size_t at = 0; (at = parameters.find(".param ", at)) != std::string::npos; at++, arguments++)
        if (parameters.compare(at, 11, ".param .u64") == 0) std::memcpy(&list.emplace_back(0), *arguments, 8);
    return list;
}

}  // namespace

}  // namespace cryolite::test

using namespace cryolite::test;
using namespace cryolite::test::recording;

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
    // The last four are those of an H100.
    static const std::map<int, int> others = {{16, 132}, {13, 1980000}, {36, 2619000}, {37, 5120}};
    const auto other = others.find(what);
    *value = what == 75              ? state.capability / 10
             : what == 76            ? state.capability % 10
             : other == others.end() ? 0
                                     : other->second;
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
    if (!memory.count(address)) return invalid_value;
    if (const int code = wait_for_all(memory.at(address).gpu)) return code;
    const auto at = memory.find(address);
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

struct Rows {
    struct Place {
        size_t x, y;
        unsigned kind;
        void *host;
        uint64_t memory;
        void *array;
        size_t stride;
    };
    Place from, to;
    size_t bytes, rows;
};
int cuMemcpy2DAsync_v2(const Rows *copy, void *stream) {
    const Hold hold(lock);
    const Rows r = *copy;
    if (const int code = enter_context("cuMemcpy2DAsync", std::to_string(r.bytes * r.rows), stream)) return code;
    for (const Rows::Place &p : {r.from, r.to}) {
        if (p.kind != 2 || p.x || p.y || p.stride < r.bytes) return invalid_value;
        if (!is_memory(p.memory, (r.rows - 1) * p.stride + r.bytes, stream)) return invalid_value;
    }
    return put_at_once(stream, [=] {
        for (size_t i = 0; i < r.rows; i++)
            std::memcpy(reinterpret_cast<char *>(r.to.memory) + i * r.to.stride,
                        reinterpret_cast<char *>(r.from.memory) + i * r.from.stride, r.bytes);
    });
}

int cuModuleLoadDataEx(void **module, const void *ptx, unsigned count, int *options, void **values) {
    const Hold hold(lock);
    if (const int code = enter_context("cuModuleLoadDataEx"))
        return std::strcpy(static_cast<char *>(values[0]), "ptxas: an error"), code;
    if (capturing()) return not_while_capturing;
    size_t registers = 255;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == max_registers) registers = reinterpret_cast<size_t>(values[i]);
    return *module = new Module{static_cast<const char *>(ptx), {}, registers}, success;
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
    return *function = &(m.functions[name] = {name, &m}), success;
}
int cuFuncGetAttribute(int *value, int what, void *) {
    const Hold hold(lock);
    *value = what == 0 ? state.block_threads : 0;
    return enter_context("cuFuncGetAttribute");
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                   unsigned threads_z, unsigned shared, void *stream, void **arguments, void **) {
    const Hold hold(lock);
    const auto &[name, module] = *static_cast<Function *>(function);
    if (const int code = enter_context("cuLaunchKernel", name, stream)) return code;
    if (x == 0 || y == 0 || z == 0) return invalid_value;
    const size_t threads = size_t(threads_x) * threads_y * threads_z;
    if (threads == 0 || threads > 1024) return invalid_value;
    if ((threads + 127) / 128 * 128 * module->registers > all_registers) return no_resources;
    state.launches.push_back({&module->ptx,
                              name,
                              {x, y, z},
                              {threads_x, threads_y, threads_z},
                              shared,
                              module->registers,
                              addresses(module->ptx, name, arguments)});
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
