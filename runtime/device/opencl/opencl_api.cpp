#include "runtime/device/opencl/opencl_api.h"

#include <dlfcn.h>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr const char *library = "libOpenCL.so.1";

template <typename Function> bool found(Function &f, const char *name) {
    f = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return f != nullptr;
}

template <typename Function> void find(Function &f, const char *name) {
    if (!found(f, name)) fail("--device opencl: {} has no function {}: OpenCL 1.2 is needed", library, name);
}

}  // namespace

OpenClApi OpenClApi::load() {
    if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL))
        fail(
            "--device opencl: there is no {} here: install the packages ocl-icd-libopencl1 and, for OpenCL on the CPU, "
            "pocl-opencl-icd (or the driver of your GPU), or use --device cpu",
            library);
    OpenClApi api;
    find(api.get_platforms, "clGetPlatformIDs");
    find(api.get_platform_info, "clGetPlatformInfo");
    find(api.get_devices, "clGetDeviceIDs");
    find(api.get_context_info, "clGetContextInfo");
    find(api.get_device_info, "clGetDeviceInfo");
    find(api.write, "clEnqueueWriteBuffer");
    find(api.read, "clEnqueueReadBuffer");
    find(api.fill, "clEnqueueFillBuffer");
    find(api.finish, "clFinish");
    uint32_t platforms = 0;
    if (api.get_platforms(0, nullptr, &platforms) != 0 || platforms == 0)
        fail("--device opencl: {} finds no OpenCL platform: install the package pocl-opencl-icd for OpenCL on the CPU, "
             "or "
             "the driver of your GPU, or use --device cpu",
             library);
    return api;
}

HalideOpenCl HalideOpenCl::find() {
    HalideOpenCl h;
    if (!(found(h.device_interface, "halide_opencl_device_interface") && found(h.memory, "halide_opencl_get_cl_mem") &&
          found(h.allocate, "halide_device_malloc") && found(h.free, "halide_device_free") &&
          found(h.crop, "halide_device_crop") && found(h.release_crop, "halide_device_release_crop") &&
          found(h.acquire_context, "halide_acquire_cl_context") &&
          found(h.release_context, "halide_release_cl_context")))
        fail("--device opencl: Halide's runtime for OpenCL is not loaded: open a bundle that was compiled with "
             "--device opencl before you make the device");
    return h;
}

}  // namespace cryolite
