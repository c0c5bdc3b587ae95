#pragma once
// The tuning records of a cache, in the form that GPU libraries use.

#include "dialects/gpu_stream.h"
#include "runtime/cache/tuning.h"

namespace cryolite {

class TunedAlgorithms : public AlgorithmRecords {
public:
    explicit TunedAlgorithms(const fs::path &folder) : tuning_(folder) {}
    std::string find(const std::string &gpu, const std::string &library, const std::string &operation) override {
        return tuning_.implementation(key(gpu, library, operation, ""));
    }
    void keep(const std::string &gpu, const std::string &library, const std::string &operation,
              const std::string &algorithm, double seconds) override {
        tuning_.remember(key(gpu, library, operation, algorithm), seconds);
    }

private:
    Tuning tuning_;

    static TuningKey key(const std::string &gpu, const std::string &library, const std::string &operation,
                         const std::string &algorithm) {
        return {"cuda", gpu, 1, operation, library, algorithm};
    }
};

}  // namespace cryolite
