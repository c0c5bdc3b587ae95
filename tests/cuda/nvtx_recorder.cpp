#include "tests/cuda/nvtx_recorder.h"

#include <nvtx3/nvToolsExt.h>

#include <mutex>

namespace cryolite::test {

namespace {

NvtxRecorder state;
std::mutex lock;

int push(const char *name) {
    const std::lock_guard hold(lock);
    return state.ranges.push_back(std::string("> ") + name), 0;
}
int pop() {
    const std::lock_guard hold(lock);
    return state.ranges.push_back("<"), 0;
}

}  // namespace

NvtxRecorder &NvtxRecorder::get() { return state; }

}  // namespace cryolite::test

/// What NVTX calls of a profiler's library, once.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
    const auto *callbacks = static_cast<const NvtxExportTableCallbacks *>(table_of(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned count = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &count)) return 0;
    *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(cryolite::test::push);
    *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(cryolite::test::pop);
    return 1;
}
