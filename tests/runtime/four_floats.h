#pragma once
// A GPU of the recording driver with an array of four floats, and kernels, functions of the host, that change it.

#include <HalideRuntimeCuda.h>

#include <array>
#include <cstring>

#include "runtime/device/cuda/cuda_device.h"
#include "tests/cuda/use_recorder.h"

// What a bundle brings of Halide's runtime, and what kernels call of the device's.
extern "C" {
int halide_cuda_device_malloc(void *context, halide_buffer_t *temporary);
int halide_cuda_device_free(void *context, halide_buffer_t *temporary);
}

namespace cryolite::test {

inline constexpr const char *ptx = ".version 7.0\n.target sm_80\n.entry add_one\n.entry twice\n";

inline int launch(void *context, const char *entry, halide_buffer_t *buffer, int count, int shared = 0,
                  int threads = 32) {
    static void *module = nullptr;
    if (const int code = halide_cuda_initialize_kernels(context, &module, ptx, 0)) return code;
    size_t sizes[] = {8, 4, 0};
    int64_t n = count;  // a driver reads 4 bytes of it, the recorder 8
    void *arguments[] = {buffer, &n, nullptr};
    int8_t is_buffer[] = {1, 0, 0};
    const int code =
        halide_cuda_run(context, module, entry, 1, 1, 1, threads, 1, 1, shared, sizes, arguments, is_buffer);
    halide_cuda_finalize_kernels(context, module);
    return code;
}

inline void *context_of(void **argv) { return *static_cast<void **>(argv[0]); }
inline halide_buffer_t *buffer_of(void **argv) { return static_cast<halide_buffer_t *>(argv[1]); }

inline int add_one(void **argv) { return launch(context_of(argv), "add_one", buffer_of(argv), 4); }
inline int twice(void **argv) { return launch(context_of(argv), "twice", buffer_of(argv), 4); }
template <int threads> int in_blocks(void **argv) {
    return launch(context_of(argv), "twice", buffer_of(argv), 4, 0, threads);
}
inline int unknown(void **argv) { return launch(context_of(argv), "nobody", buffer_of(argv), 4); }
inline int shares_much(void **argv) { return launch(context_of(argv), "twice", buffer_of(argv), 4, 50000); }

/// Takes a temporary, as one whose loops store a Func at root.
inline int with_temporary(void **argv) {
    halide_buffer_t temporary = *buffer_of(argv);
    temporary.device = 0, temporary.device_interface = nullptr;
    if (const int code = halide_cuda_device_malloc(context_of(argv), &temporary)) return code;
    const int code =
        launch(context_of(argv), "add_one", &temporary, 4) || launch(context_of(argv), "twice", buffer_of(argv), 4);
    halide_cuda_device_free(context_of(argv), &temporary);
    return code;
}

/// A device with an array of four floats.
struct Four {
    UseRecorder use;
    CudaRecorder &recorder = use.recorder;
    std::unique_ptr<Device> device;
    DeviceMemory memory;
    halide_dimension_t extent{0, 4, 1};
    halide_buffer_t argument = {};
    void *context = nullptr;
    std::array<void *, 2> argv = {&context, &argument};

    explicit Four(bool slow = false, const std::string &fails = "", int at = 0) {
        recorder.slow = slow, recorder.fails = fails, recorder.fails_at = at;
        recorder.kernels["add_one"] = [](const auto &values) { change(values, [](float x) { return x + 1; }); };
        recorder.kernels["twice"] = [](const auto &values) { change(values, [](float x) { return 2 * x; }); };
        device = make_cuda_device();
        memory = device->allocate(4 * sizeof(float), "four");
        argument.type = halide_type_of<float>(), argument.dimensions = 1, argument.dim = &extent;
        device->bind(argument, memory, 0);
        context = device->context();
    }
    ~Four() { device->release(memory); }

    KernelCall call(int (*function)(void **)) { return {.function = function, .argv = argv.data()}; }
    void put(std::array<float, 4> values) { device->upload(memory, 0, values.data(), sizeof values); }
    std::array<float, 4> get() {
        std::array<float, 4> values{};
        device->download(values.data(), memory, 0, sizeof values);
        device->finish();
        return values;
    }

private:
    template <typename Function> static void change(const std::vector<const void *> &values, Function f) {
        uint64_t address = 0;
        int32_t count = 0;
        std::memcpy(&address, values.at(0), sizeof address), std::memcpy(&count, values.at(1), sizeof count);
        for (auto *x = reinterpret_cast<float *>(address); count-- > 0; x++) *x = f(*x);
    }
};

using Values = std::array<float, 4>;

}  // namespace cryolite::test
