// What NVIDIA's profilers see of a device: ranges by the names of kernels.

#include "runtime/device/cuda/nvtx.h"

#include "runtime/device/cuda/cuda_device.h"
#include "tests/cuda/use_recorder.h"
#ifdef CRYOLITE_NVTX_RECORDER
#include "tests/cuda/nvtx_recorder.h"
#endif

#include <array>

namespace cryolite::test {

#ifdef CRYOLITE_NVTX_RECORDER

namespace {

/// NVTX asks once, when the first range begins.
const int named = setenv("NVTX_INJECTION64_PATH", CRYOLITE_NVTX_RECORDER, 1);

int nothing(void **) { return 0; }

}  // namespace

TEST_CASE("nvtx: a range for each kernel where it is launched or captured, and one for each graph") {
    REQUIRE(named == 0);
    REQUIRE(NvtxRange::built());
    CHECK(NvtxRange::why_none() == "");
    const UseRecorder use;
    const auto device = make_cuda_device();
    const auto replay = device->make_replay();
    const std::array<KernelCall, 3> calls = {
        {{.function = nothing, .name = "wte"}, {.function = nothing}, {.function = nothing, .name = "next(wte)"}}};
    std::vector<std::string> &ranges = NvtxRecorder::get().ranges;
    const std::vector<std::string> each = {"> wte", "<", "> next(wte)", "<"}, graph = {"> wte ... next(wte)", "<"};
    auto all = each;
    ranges.clear();
    device->run(calls, replay.get());
    CHECK(ranges == each);
    device->run(calls, replay.get());
    all.insert(all.end(), each.begin(), each.end()), all.insert(all.end(), graph.begin(), graph.end());
    CHECK(ranges == all);
    device->run(calls, replay.get());
    all.insert(all.end(), graph.begin(), graph.end());
    CHECK(ranges == all);
}

#else

TEST_CASE("nvtx: a build without its header says so where a profiler asks") {
    CHECK_FALSE(NvtxRange::built());
    setenv("NVTX_INJECTION64_PATH", "/a/profiler.so", 1);
    CHECK(NvtxRange::why_none().find("this build has none: build it again where nvtx3/nvToolsExt.h is found") !=
          std::string_view::npos);
    unsetenv("NVTX_INJECTION64_PATH");
    CHECK(NvtxRange::why_none() == "");
}

#endif

}  // namespace cryolite::test
