#include "runtime/device/make_device.h"

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/opencl/opencl_device.h"
#include "runtime/io/error.h"

namespace cryolite {

std::unique_ptr<Device> make_device(const std::string &name, int threads, std::vector<int> cores,
                                    const GpuChoice &gpu) {
    if (name == "cpu") return make_cpu_device(threads, std::move(cores));
    if (name == "opencl") return make_opencl_device();
    if (name == "cuda") return make_cuda_device(gpu);
    fail("there is no device {}: expected cpu, opencl or cuda", shown(name));
}

Hardware hardware_of(const std::string &device) {
    if (device == "opencl") return opencl_hardware();
    if (device == "cuda") return cuda_hardware();
    return {.name = "this machine's processor"};
}

void check_device(const std::string &name) {
    if (name == "cuda") check_cuda_driver();
}

}  // namespace cryolite
