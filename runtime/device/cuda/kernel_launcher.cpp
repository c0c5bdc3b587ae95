#include "runtime/device/cuda/kernel_launcher.h"

#include <array>
#include <vector>

namespace cryolite {

namespace {

constexpr int failure = -1;  // of a function of ours, as kernels return it

KernelLauncher &launcher_of(void *context) {
    return *static_cast<KernelLauncher *>(static_cast<TaskScheduler *>(context));
}

}  // namespace

KernelLauncher::~KernelLauncher() {
    for (auto &[ptx, module] : modules_) api_.unload_module(module);
    for (const Block &b : blocks_) api_.free(b.address);
}

int KernelLauncher::failed(CudaApi::Code code, const std::string &what) {
    note_error(fmt::format("{}: {}", what, api_.words(code)).c_str());
    return failure;
}

int KernelLauncher::begin(const char *ptx) {
    CudaApi::Object &module = modules_[ptx];
    if (!module) {
        std::array<char, 4096> log{};
        std::array options = {CudaApi::option_error_log, CudaApi::option_error_log_bytes};
        std::array values = {static_cast<void *>(log.data()), reinterpret_cast<void *>(log.size())};
        if (const int code = api_.load_module(&module, ptx, options.size(), options.data(), values.data())) {
            module = nullptr;
            log.back() = 0;
            return failed(code, fmt::format("the driver does not take the kernel's PTX ({})", log.data()));
        }
    }
    module_ = module;
    return 0;
}

int KernelLauncher::launch(const char *entry, const Size &blocks, const Size &threads, int shared_bytes, size_t sizes[],
                           void *arguments[], const int8_t is_buffer[]) {
    constexpr int most_shared = 48 << 10;  // of a block, for which nothing has to be asked
    if (shared_bytes > most_shared) {
        note_error(fmt::format("{} takes {} bytes of a block's shared memory, of which there are {}", entry,
                               shared_bytes, most_shared)
                       .c_str());
        return failure;
    }
    CudaApi::Object function = nullptr;
    if (const int code = api_.get_function(&function, module_, entry))
        return failed(code, fmt::format("looking for {} in the kernel's PTX", entry));
    size_t count = 0;
    while (sizes[count] != 0) count++;
    std::vector<CudaApi::Address> addresses(count);
    std::vector<void *> values(count + 1);
    for (size_t i = 0; i < count; i++) {
        if (is_buffer[i]) addresses[i] = static_cast<halide_buffer_t *>(arguments[i])->device;
        values[i] = is_buffer[i] ? &addresses[i] : arguments[i];
    }
    const int code =
        api_.launch(function, unsigned(blocks.x), unsigned(blocks.y), unsigned(blocks.z), unsigned(threads.x),
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

// Halide's header has not these two: its generic functions call them for a temporary.
extern "C" {
int halide_cuda_device_malloc(void *context, halide_buffer_t *temporary) {
    return launcher_of(context).take(*temporary);
}
int halide_cuda_device_free(void *context, halide_buffer_t *temporary) {
    if (temporary->device) launcher_of(context).give(*temporary);
    return 0;
}
}
