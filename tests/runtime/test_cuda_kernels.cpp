// Kernels of the device cuda against the recording driver: how their PTX is loaded, and what fails.

#include "runtime/device/cuda/launches.h"
#include "tests/runtime/four_floats.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

TEST_CASE("cuda: what calls launch is loaded before any is started, with registers for the largest block") {
    Four f(true);
    auto calls = std::to_array({f.call(add_one), f.call(in_blocks<600>), f.call(in_blocks<1024>)});
    f.recorder.calls.clear();
    CHECK(f.device->prepare(calls).call == -1);
    CHECK(f.recorder.text() == "");  // nobody says that these are compiled
    for (KernelCall &c : calls) c.compiled = true;
    CHECK(f.device->prepare(std::span(calls).first(1)).call == -1);
    CHECK(f.recorder.text() == "cuModuleLoadDataEx\n");
    CHECK(f.device->run(calls).call == -1);  // larger blocks than were known: the module is loaded anew, twice
    CHECK(f.recorder.count("cuModuleLoadDataEx") == 3);
    REQUIRE(f.recorder.launches.size() == 3);
    CHECK(f.recorder.launches[0].registers == 255);
    CHECK(f.recorder.launches[1].registers == 96);  // 65536 for 640 threads, by eights
    CHECK(f.recorder.launches[2].registers == 64);
    const std::unique_ptr<Replay> replay = f.device->make_replay();
    f.recorder.calls.clear();
    for (int run = 0; run < 3; run++) CHECK(f.device->run(calls, replay.get()).call == -1);
    CHECK(f.recorder.count("cuModuleLoadDataEx") == 0);
    CHECK(f.recorder.count("cuMemAlloc") == 0);
}

TEST_CASE("cuda: a kernel whose registers leave no room for its blocks is named") {
    Four f;
    f.recorder.block_threads = 512;
    const std::array calls = {f.call(add_one), f.call(in_blocks<600>)};
    CHECK(f.device->run(calls).call == 1);
    CHECK(f.device->last_error() == "twice is launched in blocks of 600 threads, and its registers leave room for 512");
}

TEST_CASE("cuda: how many blocks a multiprocessor has at once, and what there are no more of") {
    auto words = [](int threads, int shared, int registers, int capability) {
        const Occupancy o = occupancy({.threads = {threads, 1, 1}, .shared_bytes = shared}, registers, capability);
        return fmt::format("{} blocks, {} of {} warps, by {}", o.blocks, o.warps, o.most_warps, o.limit);
    };
    CHECK(words(256, 0, 32, 80) == "8 blocks, 64 of 64 warps, by warps");
    CHECK(words(256, 0, 64, 80) == "4 blocks, 32 of 64 warps, by registers");
    CHECK(words(256, 0, 33, 90) == "6 blocks, 48 of 64 warps, by registers");  // 40 of them are given
    CHECK(words(20, 0, 16, 80) == "32 blocks, 32 of 64 warps, by blocks");
    CHECK(words(256, 48 << 10, 32, 80) == "3 blocks, 24 of 64 warps, by shared memory");
    CHECK(words(256, 48 << 10, 32, 90) == "4 blocks, 32 of 64 warps, by shared memory");
    CHECK(words(256, 0, 32, 86) == "6 blocks, 48 of 48 warps, by warps");
}

TEST_CASE("cuda: PTX that the driver does not take") {
    Four f;
    f.recorder.fails = "cuModuleLoadDataEx", f.recorder.fails_at = 1, f.recorder.code = 218;
    const std::array calls = {f.call(twice)};
    CHECK(f.device->run(calls).call == 0);
    CHECK(f.device->last_error().find("does not take the kernel's PTX (ptxas: an error): CUDA_ERROR_INVALID_PTX") !=
          std::string::npos);
}

TEST_CASE("cuda: a kernel that fails is the call's, with the driver's words; nothing of it is captured") {
    Four f;
    const std::array calls = {f.call(add_one), f.call(unknown)};
    const CallFailure failure = f.device->run(calls);
    CHECK(failure.call == 1);
    CHECK(failure.code != 0);
    CHECK(f.device->last_error() ==
          "looking for nobody in the kernel's PTX: CUDA_ERROR_UNKNOWN: an error of the recorder");
    const std::array wide = {f.call(shares_much)};
    CHECK(f.device->run(wide).call == 0);
    CHECK(f.device->last_error() == "twice takes 50000 bytes of a block's shared memory, of which there are 49152");
    const std::array good = {f.call(twice)};
    const std::unique_ptr<Replay> replay = f.device->make_replay();
    CHECK(f.device->run(good, replay.get()).call == -1);
    f.recorder.fails = "cuLaunchKernel", f.recorder.fails_at = 1;
    CHECK(f.device->run(good, replay.get()).call == 0);
    CHECK(f.recorder.count("cuStreamEndCapture") == 1);
    CHECK(f.recorder.count("cuGraphLaunch") == 0);
    CHECK(f.device->run(good, replay.get()).call == -1);  // captured now
    CHECK(f.recorder.count("cuGraphLaunch") == 1);
}

}  // namespace cryolite::test
