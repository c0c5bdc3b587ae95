#include "runtime/device/cuda/cuda_api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr int least_version = 11040;

/// The driver's library. It is never unloaded, because contexts and their memory stay.
class Driver {
public:
    Driver() {
        if (const char *given = std::getenv("CRYOLITE_CUDA_DRIVER"); given && *given) path_ = given, given_ = true;
        library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library_) return;
        if (given_) fail("--device cuda: CRYOLITE_CUDA_DRIVER names {}, which cannot be loaded: {}", path_, dlerror());
        fail("--device cuda: there is no {} here: install the driver of an NVIDIA GPU (in a container, start it with "
             "the GPU: --gpus all), or use --device cpu",
             path_);
    }
    template <typename Function> Driver &find(Function &f, const char *name) {
        f = reinterpret_cast<Function>(dlsym(library_, name));
        if (!f && missing_.empty()) missing_ = name;
        return *this;
    }
    /// Checks the version first: it explains an old driver better than the name of a missing function.
    void check(const CudaApi &api) const {
        int version = 0;
        if (api.driver_version && api.driver_version(&version) == 0 && version < least_version)
            fail("--device cuda: the driver here is that of CUDA {}.{}, and graphs of launches need that of 11.4: "
                 "update "
                 "the driver of the GPU (470 or newer)",
                 version / 1000, version % 1000 / 10);
        if (!missing_.empty())
            fail(
                "--device cuda: {} has no function {}: it is no driver of CUDA 11.4 or newer; update the driver of the "
                "GPU",
                path_, missing_);
    }

private:
    std::string path_ = "libcuda.so.1", missing_;
    bool given_ = false;
    void *library_ = nullptr;
};

}  // namespace

CudaApi CudaApi::load() {
    CudaApi a;
    Driver driver;
    driver.find(a.driver_version, "cuDriverGetVersion").find(a.init, "cuInit");
    driver.find(a.device_count, "cuDeviceGetCount").find(a.get_device, "cuDeviceGet");
    driver.find(a.device_name, "cuDeviceGetName").find(a.device_attribute, "cuDeviceGetAttribute");
    driver.find(a.retain_context, "cuDevicePrimaryCtxRetain").find(a.release_context, "cuDevicePrimaryCtxRelease_v2");
    driver.find(a.set_current, "cuCtxSetCurrent").find(a.memory_left, "cuMemGetInfo_v2");
    driver.find(a.allocate, "cuMemAlloc_v2").find(a.free, "cuMemFree_v2");
    driver.find(a.allocate_pinned, "cuMemHostAlloc").find(a.free_pinned, "cuMemFreeHost");
    driver.find(a.fill, "cuMemsetD8Async").find(a.to_device, "cuMemcpyHtoDAsync_v2");
    driver.find(a.to_host, "cuMemcpyDtoHAsync_v2").find(a.within, "cuMemcpyDtoDAsync_v2");
    driver.find(a.rows_within, "cuMemcpy2DAsync_v2");
    driver.find(a.create_stream, "cuStreamCreate").find(a.destroy_stream, "cuStreamDestroy_v2");
    driver.find(a.wait_for_stream, "cuStreamSynchronize").find(a.stream_waits, "cuStreamWaitEvent");
    driver.find(a.create_event, "cuEventCreate").find(a.destroy_event, "cuEventDestroy_v2");
    driver.find(a.record, "cuEventRecord").find(a.is_done, "cuEventQuery");
    driver.find(a.elapsed, "cuEventElapsedTime");
    driver.find(a.wait_for_event, "cuEventSynchronize").find(a.load_module, "cuModuleLoadDataEx");
    driver.find(a.unload_module, "cuModuleUnload").find(a.get_function, "cuModuleGetFunction");
    driver.find(a.function_attribute, "cuFuncGetAttribute");
    driver.find(a.launch, "cuLaunchKernel").find(a.begin_capture, "cuStreamBeginCapture_v2");
    driver.find(a.end_capture, "cuStreamEndCapture").find(a.instantiate, "cuGraphInstantiateWithFlags");
    driver.find(a.launch_graph, "cuGraphLaunch").find(a.destroy_graph, "cuGraphDestroy");
    driver.find(a.destroy_executable, "cuGraphExecDestroy").find(a.error_name, "cuGetErrorName");
    driver.find(a.error_words, "cuGetErrorString");
    driver.check(a);
    return a;
}

std::string CudaApi::words(Code code) const {
    const char *name = nullptr, *words = nullptr;
    if (error_name(code, &name) != 0 || !name) return fmt::format("CUDA's error {}", code);
    return error_words(code, &words) == 0 && words ? fmt::format("{}: {}", name, words) : name;
}

void CudaApi::check(Code code, const std::string &what) const {
    if (code != 0) fail("--device cuda: {} failed: {}", what, words(code));
}

}  // namespace cryolite
