#pragma once
// Has --device cuda use the recording driver, while it lives.

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/cuda/recorder.h"

namespace cryolite::test {

class UseRecorder {
public:
    explicit UseRecorder(const char *driver = CRYOLITE_CUDA_RECORDER) : recorder(CudaRecorder::get()) {
        recorder.reset();
        setenv("CRYOLITE_CUDA_DRIVER", driver, 1);
    }
    ~UseRecorder() {
        unsetenv("CRYOLITE_CUDA_DRIVER");
        const auto hold = CudaRecorder::hold();
        recorder.kernels.clear();  // they hold bundles and devices, whose libraries may end before the recorder does
    }
    UseRecorder(const UseRecorder &) = delete;

    CudaRecorder &recorder;
};

}  // namespace cryolite::test
