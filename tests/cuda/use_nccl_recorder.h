#pragma once

#include <cstdlib>

#include "tests/cuda/nccl_recorder.h"

namespace cryolite::test {

/// Has workers use it, while it lives.
class UseNcclRecorder {
public:
    explicit UseNcclRecorder(const char *library = CRYOLITE_NCCL_RECORDER) : recorder(NcclRecorder::get()) {
        const int comms = recorder.comms;
        recorder = {};
        recorder.comms = comms;
        setenv("CRYOLITE_NCCL", library, 1);
    }
    ~UseNcclRecorder() { unsetenv("CRYOLITE_NCCL"); }
    UseNcclRecorder(const UseNcclRecorder &) = delete;

    NcclRecorder &recorder;
};

}  // namespace cryolite::test
