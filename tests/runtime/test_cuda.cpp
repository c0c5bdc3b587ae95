// The device cuda against a driver that writes down its calls: what is called, in which order, and what is waited for.
// Kernels are called as those that Halide compiles, and are functions of the host.

#include <algorithm>
#include <regex>
#include <set>

#include "runtime/device/hardware.h"
#include "tests/cuda/use_recorder.h"
#include "tests/runtime/four_floats.h"
#include "tests/runtime/scratch.h"

// What a bundle brings of Halide's runtime; the functions that kernels call of it are those of the device.
extern "C" const halide_device_interface_t *halide_cuda_device_interface() {
    static const halide_device_interface_t interface {};
    return &interface;
}

namespace cryolite::test {

TEST_CASE("cuda: memory begins with zeros, and holds what is written and computed") {
    for (const bool slow : {false, true}) {
        Four f(slow);
        CHECK(f.get() == Values{0, 0, 0, 0});
        f.put({1, 2, 3, 4});
        const std::array calls = {f.call(add_one), f.call(twice)};
        CHECK(f.device->run(calls).call == -1);
        CHECK(f.get() == Values{4, 6, 8, 10});
    }
}

TEST_CASE("cuda: the peak of a GPU follows from what its driver says") {
    const UseRecorder use;
    const Hardware h = hardware_of("cuda");
    CHECK(!h.name.empty());
    CHECK(!h.processor);
    CHECK(h.peak == doctest::Approx(66908.0).epsilon(0.001));  // an H100's, in GFLOP/s
    CHECK(h.bandwidth == doctest::Approx(3352.0).epsilon(0.001));
    CHECK(hardware_of("cpu").processor);
}

TEST_CASE("cuda: calls that are run again are captured once, as one graph, and launched as that") {
    Four f(true);
    auto calls = std::to_array({f.call(add_one), f.call(with_temporary)});
    for (KernelCall &c : calls) c.compiled = true;
    const std::unique_ptr<Replay> replay = f.device->make_replay();
    f.put({0, 1, 2, 3});
    f.recorder.calls.clear();
    for (int run = 0; run < 4; run++) CHECK(f.device->run(calls, replay.get()).call == -1);
    CHECK(f.recorder.text() == "cuModuleLoadDataEx\n"
                               "cuMemAlloc 16\n"
                               "cuLaunchKernel add_one\n"
                               "cuLaunchKernel add_one\n"
                               "cuLaunchKernel twice\n"
                               "cuStreamBeginCapture\n"
                               "cuLaunchKernel add_one\n"
                               "cuLaunchKernel add_one\n"
                               "cuLaunchKernel twice\n"
                               "cuStreamEndCapture\n"
                               "cuGraphInstantiate\n"
                               "cuGraphDestroy\n"
                               "cuGraphLaunch\n"
                               "cuGraphLaunch\n"
                               "cuGraphLaunch\n");
    CHECK(f.recorder.waits() == 0);
    Values expected = {0, 1, 2, 3};
    for (int run = 0; run < 4; run++)
        for (float &x : expected) x = 2 * (x + 1);
    CHECK(f.get() == expected);
}

TEST_CASE("cuda: a call that throws while it is captured leaves the stream as it was") {
    Four f;
    static bool throws;
    throws = false;
    const std::array calls = {f.call([](void **argv) { return throws ? throw Error("thrown") : add_one(argv); })};
    const std::unique_ptr<Replay> replay = f.device->make_replay();
    CHECK(f.device->run(calls, replay.get()).call == -1);
    throws = true;
    CHECK_THROWS_AS(f.device->run(calls, replay.get()), Error);
    throws = false;
    f.device->finish();  // which a stream that captures refuses
    CHECK(f.device->run(calls, replay.get()).call == -1);
    CHECK(f.recorder.count("cuGraphLaunch") == 1);
    CHECK(f.get() == Values{2, 2, 2, 2});
}

TEST_CASE("cuda: a batch goes through pinned memory on a stream of its own, and nobody waits") {
    Four f(true);
    f.put({});
    f.device->finish();
    f.recorder.calls.clear();
    f.put({1, 2, 3, 4});
    CHECK(f.recorder.text() == "cuMemcpyHtoDAsync 16\n"
                               "cuEventRecord\n"
                               "cuStreamWaitEvent\n"
                               "cuMemcpyDtoDAsync 16\n"
                               "cuEventRecord\n");
    CHECK(f.get() == Values{1, 2, 3, 4});
}

TEST_CASE("cuda: what is uploaded may change at once, also while the GPU is steps behind") {
    Four f(true);
    const std::array calls = {f.call(twice)};
    std::array<Values, 3> results{};
    for (int step = 0; step < 3; step++) {
        Values batch = {float(step), 1, 2, 3};
        f.device->upload(f.memory, 0, batch.data(), sizeof batch);
        batch = {-1, -1, -1, -1};
        CHECK(f.device->run(calls).call == -1);
        f.device->download(results[size_t(step)].data(), f.memory, 0, sizeof batch);
    }
    CHECK(f.recorder.waits() == 0);
    f.device->finish();
    for (int step = 0; step < 3; step++) CHECK(results[size_t(step)] == Values{float(2 * step), 2, 4, 6});
}

TEST_CASE("cuda: a mark is awaited alone, and only where it is not reached") {
    for (const bool slow : {false, true}) {
        Four f(slow);
        Values first{}, second{};
        f.put({1, 1, 1, 1});
        f.device->download(first.data(), f.memory, 0, sizeof first);
        const uint64_t mark = f.device->mark();
        f.put({2, 2, 2, 2});
        f.device->download(second.data(), f.memory, 0, sizeof second);
        f.device->mark();
        f.recorder.calls.clear();
        f.device->await(mark);
        CHECK(f.recorder.count("cuEventSynchronize") == (slow ? 1 : 0));
        CHECK(f.device->step_waits() == (slow ? 1 : 0));
        CHECK(f.device->waits() == 0);
        CHECK(f.recorder.count("cuStreamSynchronize") == 0);
        CHECK(first == Values{1, 1, 1, 1});
        CHECK(second == Values{});
        f.device->finish();
        CHECK(second == Values{2, 2, 2, 2});
    }
}

TEST_CASE("cuda: places for batches and temporaries are used again, and all is given back") {
    const size_t before = CudaRecorder::get().allocated;
    {
        Four f;
        const std::array calls = {f.call(with_temporary)};
        for (int step = 0; step < 3; step++) {
            if (step == 1) f.recorder.calls.clear();
            f.put({});
            CHECK(f.device->run(calls).call == -1);
            f.get();
        }
        for (const char *name : {"cuMemAlloc", "cuMemHostAlloc", "cuEventCreate", "cuModuleLoadDataEx"})
            CHECK(f.recorder.count(name) == 0);
    }
    CHECK(CudaRecorder::get().allocated == before);
}

TEST_CASE("cuda: large arrays are not kept aside") {
    Four f(true);
    const std::vector<char> large(size_t(5) << 20, 3);
    DeviceMemory memory = f.device->allocate(large.size(), "weights");
    f.recorder.calls.clear();
    f.device->upload(memory, 0, large.data(), large.size());
    std::vector<char> back(large.size());
    f.device->download(back.data(), memory, 0, back.size());
    f.device->finish();
    CHECK(back == large);
    CHECK(f.recorder.count("cuMemHostAlloc") == 0);
    f.device->release(memory);
}

TEST_CASE("cuda: a batch is kept aside however large it is, and nobody waits") {
    Four f(true);
    const size_t bytes = size_t(70) << 20;
    f.recorder.memory = bytes * 4;
    DeviceMemory memory = f.device->allocate(bytes, "batch");
    std::vector<char> batch(bytes, 1), got(bytes);
    for (int step = 0; step < 2; step++) f.device->upload_batch(memory, 0, batch.data(), bytes);
    CHECK(f.recorder.waits() == 0);
    std::fill(batch.begin(), batch.end(), char(2));  // it may change at once
    f.device->download(got.data(), memory, 0, bytes);
    f.device->finish();
    CHECK(std::ranges::all_of(got, [](char c) { return c == 1; }));
    f.put({1, 2, 3, 4});  // small arrays have places of their own
    CHECK(f.recorder.waits() == 1);
    f.device->release(memory);
}

TEST_CASE("cuda: without room for a place of its own, a batch is waited for and is there") {
    Four f(true);
    f.device->finish();
    f.recorder.memory = f.recorder.allocated;
    f.recorder.calls.clear();
    f.put({1, 2, 3, 4});
    CHECK(f.recorder.waits() == 1);
    CHECK(f.get() == Values{1, 2, 3, 4});
}

TEST_CASE("cuda: every call of the driver that fails is an error, and nothing of the device stays") {
    const size_t before = CudaRecorder::get().allocated;
    auto steps = [](const std::string &name, int at) {
        Four f(false, name, at);
        const std::array calls = {f.call(with_temporary)};
        const std::unique_ptr<Replay> replay = f.device->make_replay();
        for (int step = 0; step < 3; step++) {
            f.put({1, 2, 3, 4});
            if (f.device->run(calls, replay.get()).call >= 0) fail("{}", f.device->last_error());
            f.device->await(f.device->mark());
            f.get();
        }
    };
    CHECK(error_of([&] { steps("", 0); }) == "");
    for (const char *name : {"cuInit",
                             "cuDevicePrimaryCtxRetain",
                             "cuCtxSetCurrent",
                             "cuStreamCreate",
                             "cuMemAlloc",
                             "cuMemsetD8Async",
                             "cuMemHostAlloc",
                             "cuEventCreate",
                             "cuMemcpyHtoDAsync",
                             "cuMemcpyDtoDAsync",
                             "cuMemcpyDtoHAsync",
                             "cuStreamWaitEvent",
                             "cuEventRecord",
                             "cuLaunchKernel",
                             "cuStreamBeginCapture",
                             "cuStreamEndCapture",
                             "cuGraphInstantiate",
                             "cuGraphLaunch",
                             "cuModuleGetFunction",
                             "cuFuncGetAttribute",
                             "cuModuleLoadDataEx",
                             "cuStreamSynchronize"}) {
        const int calls = (steps("", 0), CudaRecorder::get().count(name));
        for (int at = 1; at <= calls; at++) {
            CAPTURE(name);
            CAPTURE(at);
            const std::string said = error_of([&] { steps(name, at); });
            // What a device is taken down with may fail unseen.
            const bool ending =
                std::set<std::string>{"cuCtxSetCurrent", "cuStreamSynchronize"}.count(name) && at > calls - 4;
            if (!ending) CHECK(said.find("CUDA_ERROR_UNKNOWN: an error of the recorder") != std::string::npos);
            CHECK(CudaRecorder::get().allocated == before);
        }
    }
}

TEST_CASE("cuda: no memory") {
    Four f;
    f.recorder.memory = f.recorder.allocated + 1000;
    CHECK_THROWS_AS(f.device->allocate(4000, "parameter w"), OutOfMemory);
    const std::string said = error_of([&] { f.device->allocate(4000, "parameter w"); });
    CHECK(std::regex_match(said, std::regex("parameter w: the Recorder has no memory for 4.0 kB: 1.0 kB of its .* are "
                                            "free")));
}

TEST_CASE("cuda: no driver, one that is none, an old one, and no GPU: each with what helps") {
    {
        const UseRecorder use("");
        const std::string said = error_of(check_cuda_driver);
        if (said.empty())
            MESSAGE("this machine has a driver");
        else
            CHECK(said.find("there is no libcuda.so.1 here: install the driver of an NVIDIA GPU") != std::string::npos);
    }
    {
        const UseRecorder use("/nowhere/libcuda.so");
        CHECK(error_of(check_cuda_driver)
                  .find("CRYOLITE_CUDA_DRIVER names /nowhere/libcuda.so, which cannot be loaded") != std::string::npos);
    }
    {
        const UseRecorder use("libm.so.6");
        CHECK(error_of(check_cuda_driver)
                  .find("libm.so.6 has no function cuDriverGetVersion: it is no driver of CUDA "
                        "11.4 or newer") != std::string::npos);
    }
    const UseRecorder use;
    use.recorder.version = 11020;
    CHECK(error_of(check_cuda_driver) == "--device cuda: the driver here is that of CUDA 11.2, and graphs of launches "
                                         "need that of 11.4: update the driver of the GPU (470 or newer)");
    use.recorder.version = 11040;
    CHECK(error_of(check_cuda_driver) == "");
    use.recorder.devices = 0;
    CHECK(error_of([] { make_cuda_device(); }).find("CUDA's driver sees no GPU: nvidia-smi lists") !=
          std::string::npos);
}

TEST_CASE("cuda: a GPU of another capability than the kernels") {
    Four f;
    f.device->check_capability(80), f.device->check_capability(90);
    f.recorder.capability = 80;
    const auto ampere = make_cuda_device();
    CHECK(error_of([&] { ampere->check_capability(86); }) ==
          "--device cuda: the kernels are for GPUs of compute capability 8.6 and newer, and the Recorder has 8.0: "
          "compile "
          "them with --target sm_80");
    f.recorder.capability = 75;
    const auto turing = make_cuda_device();
    CHECK(error_of([&] { turing->check_capability(80); })
              .find("there are none for GPUs older than 8.0: use --device "
                    "cpu") != std::string::npos);
}

}  // namespace cryolite::test
