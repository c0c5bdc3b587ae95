#pragma once
// What tests of whole steps against the doubles of the driver and of cuBLASLt have.

#include "tests/cuda/use_cublaslt_recorder.h"
#include "tests/parity/on_recorder.h"

namespace cryolite::test {

/// `args`: of the model, and of a step: how many micro-batches, and whether it clips.
struct OnDoubles {
    UseRecorder cuda;
    UseCublasLtRecorder lt;
    Scratch folder;
    int accumulate;
    double clip;
    explicit OnDoubles(const json &args) : accumulate(args.value("accumulate", 1)), clip(args.value("clip", 0.0)) {}

    /// The library refused no call, and the step ran as graphs.
    void check_calls() {
        for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
        CHECK(cuda.recorder.count("cuGraphLaunch") > 0);
    }
};

}  // namespace cryolite::test
