#pragma once
// Ranges that NVIDIA's profilers show. A profiler names its library in NVTX_INJECTION64_PATH; without one a range is a
// branch.

#include <string_view>

namespace cryolite {

/// What the calling thread does while it lives. An empty name is no range.
class NvtxRange {
public:
    explicit NvtxRange(std::string_view name);
    ~NvtxRange();
    NvtxRange(const NvtxRange &) = delete;

    /// Whether this build has them: where nvtx3/nvToolsExt.h was found.
    static bool built();
    /// Where a profiler asks for ranges that this build has not, why it gets none; else empty.
    static std::string_view why_none();

private:
    bool begun_ = false;
};

}  // namespace cryolite
