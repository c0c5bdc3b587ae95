#include "runtime/device/cuda/nvtx.h"

#include <cstdlib>
#include <string>

#ifdef CRYOLITE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace cryolite {

#ifdef CRYOLITE_NVTX

bool NvtxRange::built() { return true; }

NvtxRange::NvtxRange(std::string_view name) : begun_(!name.empty()) {
    static thread_local std::string text;  // the library needs a terminating zero
    if (begun_) nvtxRangePushA(text.assign(name).c_str());
}
NvtxRange::~NvtxRange() {
    if (begun_) nvtxRangePop();
}

#else

bool NvtxRange::built() { return false; }
NvtxRange::NvtxRange(std::string_view) {}
NvtxRange::~NvtxRange() {}

#endif

std::string_view NvtxRange::why_none() {
    const char *asked = std::getenv("NVTX_INJECTION64_PATH");
    if (built() || !asked || !*asked) return "";
    return "a profiler asks for NVTX ranges (NVTX_INJECTION64_PATH), and this build has none: build it again where "
           "nvtx3/nvToolsExt.h is found, of the CUDA Toolkit or of NVIDIA's wheel nvidia-nvtx";
}

}  // namespace cryolite
