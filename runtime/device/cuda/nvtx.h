#pragma once
// Ranges that NVIDIA's profilers show. A profiler names its library in NVTX_INJECTION64_PATH; without one a range costs
// a branch.

#include <string_view>

namespace cryolite {

/// A range of the calling thread for as long as it lives. An empty name makes none.
class NvtxRange {
public:
    explicit NvtxRange(std::string_view name);
    ~NvtxRange();
    NvtxRange(const NvtxRange &) = delete;

    /// Whether this build has ranges: nvtx3/nvToolsExt.h was found.
    static bool built();
    /// Why a profiler that asks for ranges gets none from this build; empty: it gets them, or none asks.
    static std::string_view why_none();

private:
    bool begun_ = false;
};

}  // namespace cryolite
