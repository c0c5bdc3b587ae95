#pragma once
// A cuBLASLt for tests, beside the recording driver: it writes down what is asked of it, refuses what the library's
// documents say that it refuses, and computes each product on the host as its descriptors say. A test program links it
// and names it in CRYOLITE_CUBLASLT.

#include <cstdint>
#include <string>
#include <vector>

namespace cryolite::test {

struct CublasLtRecorder {
    // What it pretends to be.
    int version = 120400;
    int algorithms = 3;        ///< it proposes; number n takes seconds(n) and workspace(n)
    uint32_t unsupported = 0;  ///< an epilogue that it has no algorithm for
    int fails_at = 0;          ///< the n-th product from now on, from 1
    uint64_t refuses = 0;      ///< an algorithm that `check` does not know any more

    // What happened.
    struct Call {
        int64_t m, n, k;
        int batch;
        bool transposes_a, transposes_b, adds;
        int type, result, compute;
        uint32_t epilogue;
        uint64_t algorithm;
    };
    std::vector<Call> calls;         ///< products that were put into streams
    std::vector<std::string> wrong;  ///< why products were refused
    int asked = 0;                   ///< for algorithms
    uint32_t reductions = 0;         ///< that the last question for algorithms allowed
    int handles = 0, objects = 0;    ///< that are not destroyed

    static double seconds(uint64_t algorithm) { return algorithm == 2 ? 1e-3 : 5e-3; }
    static size_t workspace(uint64_t algorithm) { return algorithm == 1 ? 0 : 4096; }
    static CublasLtRecorder &get();
};

}  // namespace cryolite::test
