#pragma once

#include <cstdlib>

#include "tests/cuda/cublaslt_recorder.h"

namespace cryolite::test {

/// Has dialects use it, while it lives.
class UseCublasLtRecorder {
public:
    explicit UseCublasLtRecorder(const char *library = CRYOLITE_CUBLASLT_RECORDER) : recorder(CublasLtRecorder::get()) {
        const int handles = recorder.handles, objects = recorder.objects;
        recorder = {};
        recorder.handles = handles, recorder.objects = objects;
        setenv("CRYOLITE_CUBLASLT", library, 1);
    }
    ~UseCublasLtRecorder() { unsetenv("CRYOLITE_CUBLASLT"); }
    UseCublasLtRecorder(const UseCublasLtRecorder &) = delete;

    CublasLtRecorder &recorder;
};

}  // namespace cryolite::test
