#pragma once
// A profiler for tests: NVTX loads it where NVTX_INJECTION64_PATH names it, and it writes down the ranges.

#include <string>
#include <vector>

namespace cryolite::test {

struct NvtxRecorder {
    /// "> twice" and "<", in their order over all threads.
    std::vector<std::string> ranges;
    static NvtxRecorder &get();
};

}  // namespace cryolite::test
