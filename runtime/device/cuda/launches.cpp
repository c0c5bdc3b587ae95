#include "runtime/device/cuda/launches.h"

#include <algorithm>
#include <deque>
#include <string_view>

#include "runtime/device/cuda/kernel_launcher.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// A driver without a GPU: only the functions that temporaries need are called.
CudaApi without_gpu() {
    CudaApi api{};
    api.allocate = [](CudaApi::Address *memory, size_t) { return *memory = 512, 0; };
    api.free = [](CudaApi::Address) { return 0; };
    return api;
}

/// "ld.global.nc.v4.b32" -> 16
int bytes_of_access(std::string_view instruction) {
    const size_t vector = instruction.find(".v"), type = instruction.find_last_of('.');
    const int elements = vector == std::string_view::npos ? 1 : instruction[vector + 2] - '0';
    int bits = 0;
    for (size_t i = type + 2; i < instruction.size() && instruction[i] >= '0' && instruction[i] <= '9'; i++)
        bits = 10 * bits + (instruction[i] - '0');
    return elements * bits / 8;
}

/// The loads and stores in the text of an entry.
void count_accesses(KernelLaunch &launch) {
    const std::string_view ptx = launch.ptx;
    const size_t begin = ptx.find(".entry " + launch.entry + "(");
    if (begin == std::string_view::npos) fail("'{}' is launched, and its PTX has no such entry", launch.entry);
    const std::string_view text = ptx.substr(begin, ptx.find(".entry ", begin + 1) - begin);
    for (const auto &[word, counts] : {std::pair{"ld.global", &launch.loads}, {"st.global", &launch.stores}})
        for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at++)
            (*counts)[bytes_of_access(text.substr(at, text.find_first_of(" \t", at) - at))]++;
}

}  // namespace

std::vector<KernelLaunch> launches_of(int (*kernel)(void **), const std::vector<LaunchArgument> &arguments) {
    const CudaApi api = without_gpu();
    KernelLauncher launcher(api, nullptr, KernelLauncher::interface_of_bundles());
    std::deque<std::vector<halide_dimension_t>> dimensions;
    std::deque<halide_buffer_t> buffers;
    void *context = static_cast<TaskScheduler *>(&launcher);
    std::vector<void *> argv = {&context};
    for (const LaunchArgument &a : arguments) {
        auto &dims = dimensions.emplace_back();
        int stride = 1;
        for (int e : a.extents) dims.emplace_back(0, e, stride), stride *= e;
        halide_buffer_t &b = buffers.emplace_back();
        b.type = a.type, b.dimensions = int(dims.size()), b.dim = dims.data();
        b.device = 512, b.device_interface = launcher.interface();
        argv.push_back(&b);
    }
    std::vector<KernelLaunch> launches;
    {
        const KernelLauncher::Rehearsal rehearsal(launcher, &launches);
        if (const int code = kernel(argv.data())) fail("it failed with code {}: {}", code, launcher.error());
    }
    std::ranges::for_each(launches, count_accesses);
    return launches;
}

Occupancy occupancy(const KernelLaunch &launch, int registers, int capability) {
    // Limits of a multiprocessor by compute capability, from NVIDIA's CUDA programming guide.
    const bool small = capability % 10 != 0;
    constexpr int all_registers = 65536;
    const int most_warps = small ? 48 : 64, most_blocks = small ? 16 : 32;
    const int shared = (small ? 100 : capability >= 90 ? 228 : 164) << 10;
    auto up = [](int n, int unit) { return (n + unit - 1) / unit * unit; };
    const int warps = up(launch.threads_of_block(), 32) / 32;
    const int of_warp = up(32 * std::max(registers, 1), 256);  // registers are allocated by 256
    const std::pair<int, const char *> limits[] = {
        {most_warps / warps, "warps"},
        {most_blocks, "blocks"},
        {all_registers / of_warp / 4 * 4 / warps, "registers"},              // for four warps at a time
        {shared / (up(launch.shared_bytes, 128) + 1024), "shared memory"}};  // CUDA takes 1 KiB of each block
    const auto least = std::ranges::min_element(limits, {}, &std::pair<int, const char *>::first);
    return {least->first, least->first * warps, most_warps, least->second};
}

}  // namespace cryolite
