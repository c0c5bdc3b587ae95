// A library of kernels that are functions of the host: as compiled ones they launch through the runtime, by PTX that
// the recorder takes, and it calls the function of that name with the addresses of its arrays.

#include <HalideRuntimeCuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda/recorder.h"

namespace {

int launch(int number, void **argv) {
    const int count = cryolite::test::CudaRecorder::get().host_kernels.at(size_t(number));
    const std::string name = "host_kernel_" + std::to_string(number), ptx = ".entry " + name;
    void *const context = *static_cast<void **>(argv[0]);
    void *module = nullptr;
    if (const int code = halide_cuda_initialize_kernels(context, &module, ptx.c_str(), 0)) return code;
    std::vector<size_t> sizes(size_t(count), 8);
    std::vector<void *> arguments(argv + 1, argv + 1 + count);
    const std::vector<int8_t> is_buffer(size_t(count) + 1, 1);
    sizes.push_back(0), arguments.push_back(nullptr);
    const int code = halide_cuda_run(context, module, name.c_str(), 1, 1, 1, 1, 1, 1, 0, sizes.data(), arguments.data(),
                                     const_cast<int8_t *>(is_buffer.data()));
    halide_cuda_finalize_kernels(context, module);
    return code;
}

}  // namespace

#define KERNEL(n)                                                                                                      \
    int host_kernel_##n##_argv(void **argv) { return launch(n, argv); }
#define FIVE(t, a, b, c, d, e) KERNEL(t##a) KERNEL(t##b) KERNEL(t##c) KERNEL(t##d) KERNEL(t##e)
#define TEN(t) FIVE(t, 0, 1, 2, 3, 4) FIVE(t, 5, 6, 7, 8, 9)

extern "C" {
TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
}

/// What a bundle brings of Halide's runtime.
extern "C" const halide_device_interface_t *halide_cuda_device_interface() {
    static const halide_device_interface_t interface {};
    return &interface;
}
