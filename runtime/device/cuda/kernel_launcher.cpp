#include "runtime/device/cuda/kernel_launcher.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr int failure = -1;  // what our functions return to kernels on an error

KernelLauncher &launcher_of(void *context) {
    return *static_cast<KernelLauncher *>(static_cast<TaskScheduler *>(context));
}

}  // namespace

KernelLauncher::~KernelLauncher() {
    for (auto &[ptx, m] : modules_)
        if (m.module) api_.unload_module(m.module);
    for (const CudaApi::Object m : replaced_) api_.unload_module(m);
    for (const Block &b : blocks_) api_.free(b.address);
}

const halide_device_interface_t *KernelLauncher::interface_of_bundles() {
    using Interface = const halide_device_interface_t *();
    auto *found = reinterpret_cast<Interface *>(dlsym(RTLD_DEFAULT, "halide_cuda_device_interface"));
    if (!found)
        fail("--device cuda: Halide's runtime for CUDA is not loaded: open a bundle that was compiled with --device "
             "cuda before you make the device");
    return found();
}

int KernelLauncher::failed(CudaApi::Code code, const std::string &what) {
    note_error(fmt::format("{}: {}", what, api_.words(code)).c_str());
    return failure;
}

int KernelLauncher::begin(const char *ptx) {
    of_ = &*modules_.try_emplace(ptx).first;
    return 0;
}

/// Halide's PTX does not declare the size of its blocks, so the driver would give a thread more registers than a block
/// of this size can have. Registers are allocated for four warps at a time, in eights for each thread.
int KernelLauncher::most_registers(int threads) {
    constexpr int all = 65536, most = 255, together = 128;
    const int each = all / ((threads + together - 1) / together * together);
    return std::min(most, each / 8 * 8);
}

int KernelLauncher::load(std::pair<const std::string, Module> &of) {
    Module &m = of.second;
    if (m.module && m.loaded_for >= m.threads) return 0;
    std::array<char, 4096> log{};
    std::array options = {CudaApi::option_error_log, CudaApi::option_error_log_bytes, CudaApi::option_registers};
    std::array values = {static_cast<void *>(log.data()), reinterpret_cast<void *>(log.size()),
                         reinterpret_cast<void *>(size_t(most_registers(m.threads)))};
    CudaApi::Object loaded = nullptr;
    if (const int code = api_.load_module(&loaded, of.first.c_str(), options.size(), options.data(), values.data())) {
        log.back() = 0;
        return failed(code, fmt::format("the driver does not take the kernel's PTX ({})", log.data()));
    }
    if (m.module) replaced_.push_back(m.module);
    m.module = loaded, m.loaded_for = m.threads;
    for (auto &[entry, function] : m.functions) function = nullptr;
    return 0;
}

int KernelLauncher::find(Module &m, const std::string &entry) {
    if (m.functions[entry]) return 0;
    CudaApi::Object function = nullptr;
    if (const int code = api_.get_function(&function, m.module, entry.c_str()))
        return failed(code, fmt::format("looking for {} in the kernel's PTX", entry));
    int threads = 0;  // asking makes the driver load the function now, not at its launch: loading may wait for the GPU
    if (const int code = api_.function_attribute(&threads, CudaApi::most_threads, function))
        return failed(code, fmt::format("asking for the blocks of {}", entry));
    if (threads >= m.threads) return m.functions[entry] = function, 0;
    note_error(fmt::format("{} is launched in blocks of {} threads, and its registers leave room for {}", entry,
                           m.threads, threads)
                   .c_str());
    return failure;
}

int KernelLauncher::load() {
    if (!of_) return 0;
    if (const int code = load(*of_)) return code;
    for (auto &[entry, function] : of_->second.functions)
        if (const int code = find(of_->second, entry)) return code;
    return 0;
}

int KernelLauncher::launch(const char *entry, const Size &blocks, const Size &threads, int shared_bytes, size_t sizes[],
                           void *arguments[], const int8_t is_buffer[]) {
    constexpr int most_shared = 48 << 10;  // of a block, without opting in to more
    if (shared_bytes > most_shared) {
        note_error(fmt::format("{} takes {} bytes of a block's shared memory, of which there are {}", entry,
                               shared_bytes, most_shared)
                       .c_str());
        return failure;
    }
    Module &m = of_->second;
    m.threads = std::max(m.threads, threads.x * threads.y * threads.z);
    if (rehearses_) {
        m.functions.try_emplace(entry);
        if (launches_)
            launches_->push_back({.entry = entry,
                                  .blocks = {blocks.x, blocks.y, blocks.z},
                                  .threads = {threads.x, threads.y, threads.z},
                                  .shared_bytes = shared_bytes,
                                  .ptx = of_->first});
        return 0;
    }
    if (const int code = load(*of_)) return code;
    if (const int code = find(m, entry)) return code;
    size_t count = 0;
    while (sizes[count] != 0) count++;
    std::vector<CudaApi::Address> addresses(count);
    std::vector<void *> values(count + 1);
    for (size_t i = 0; i < count; i++) {
        if (is_buffer[i]) addresses[i] = static_cast<halide_buffer_t *>(arguments[i])->device;
        values[i] = is_buffer[i] ? &addresses[i] : arguments[i];
    }
    const int code =
        api_.launch(m.functions[entry], unsigned(blocks.x), unsigned(blocks.y), unsigned(blocks.z), unsigned(threads.x),
                    unsigned(threads.y), unsigned(threads.z), unsigned(shared_bytes), stream_, values.data(), nullptr);
    return code ? failed(code, fmt::format("launching {}", entry)) : 0;
}

int KernelLauncher::take(halide_buffer_t &temporary) {
    if (temporary.device) return 0;
    const size_t bytes = temporary.size_in_bytes();
    Block *best = nullptr;
    for (Block &b : blocks_)
        if (!b.used && b.bytes >= bytes && (!best || b.bytes < best->bytes)) best = &b;
    if (!best) {
        CudaApi::Address address = 0;
        if (const int code = api_.allocate(&address, bytes))
            return failed(code, fmt::format("there is no memory for {}, which a kernel takes for itself; use a smaller "
                                            "batch, context or model",
                                            human_bytes(bytes)));
        best = &blocks_.emplace_back(Block{address, bytes, false});
    }
    best->used = true;
    temporary.device = best->address, temporary.device_interface = interface_;
    return 0;
}

void KernelLauncher::give(halide_buffer_t &temporary) {
    for (Block &b : blocks_)
        if (b.address == temporary.device) b.used = false;
    temporary.device = 0, temporary.device_interface = nullptr;
}

}  // namespace cryolite

using cryolite::launcher_of;

int halide_cuda_initialize_kernels(void *context, void **state, const char *ptx, int) {
    *state = context;
    return launcher_of(context).begin(ptx);
}

int halide_cuda_run(void *context, void *, const char *entry, int blocks_x, int blocks_y, int blocks_z, int threads_x,
                    int threads_y, int threads_z, int shared_bytes, size_t sizes[], void *arguments[],
                    int8_t is_buffer[]) {
    return launcher_of(context).launch(entry, {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z},
                                       shared_bytes, sizes, arguments, is_buffer);
}

void halide_cuda_finalize_kernels(void *, void *) {}

// Halide's headers do not declare these two, which its generic functions call for a temporary.
extern "C" {
int halide_cuda_device_malloc(void *context, halide_buffer_t *temporary) {
    return launcher_of(context).take(*temporary);
}
int halide_cuda_device_free(void *context, halide_buffer_t *temporary) {
    if (temporary->device) launcher_of(context).give(*temporary);
    return 0;
}
}
