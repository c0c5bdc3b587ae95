#pragma once
// The functions of cuBLASLt that this dialect calls. They are looked up at run time, so that the build needs no header
// of the library. tests/runtime/test_cublaslt.cpp compares the numbers with cublasLt.h where that is found.

#include <cstddef>
#include <cstdint>
#include <string>

namespace cryolite::of_cublaslt {

struct Api {
    using Status = int;
    using Object = void *;  ///< cublasLtHandle_t, MatmulDesc_t, MatrixLayout_t, MatmulPreference_t, CUstream
    struct Algorithm {      ///< cublasLtMatmulAlgo_t: opaque data, which may be stored
        uint64_t data[8];
    };
    struct Candidate {  ///< cublasLtMatmulHeuristicResult_t
        Algorithm algorithm;
        size_t workspace;
        Status state;
        float waves;
        int reserved[4];
    };

    size_t (*version)();
    const char *(*status_name)(Status status);
    Status (*create)(Object *handle);
    Status (*destroy)(Object handle);
    Status (*create_product)(Object *product, int compute_type, int scale_type);
    Status (*destroy_product)(Object product);
    Status (*set_product)(Object product, int attribute, const void *value, size_t bytes);
    Status (*create_matrix)(Object *matrix, int type, uint64_t rows, uint64_t columns, int64_t stride);
    Status (*destroy_matrix)(Object matrix);
    Status (*set_matrix)(Object matrix, int attribute, const void *value, size_t bytes);
    Status (*create_preference)(Object *preference);
    Status (*destroy_preference)(Object preference);
    Status (*set_preference)(Object preference, int attribute, const void *value, size_t bytes);
    Status (*find_algorithms)(Object handle, Object product, Object a, Object b, Object c, Object d, Object preference,
                              int most, Candidate *found, int *count);
    Status (*check_algorithm)(Object handle, Object product, Object a, Object b, Object c, Object d,
                              const Algorithm *algorithm, Candidate *answer);
    Status (*multiply)(Object handle, Object product, const void *alpha, const void *a, Object a_matrix, const void *b,
                       Object b_matrix, const void *beta, const void *c, Object c_matrix, void *d, Object d_matrix,
                       const Algorithm *algorithm, void *workspace, size_t workspace_bytes, Object stream);

    // Values of the enums in cublasLt.h.
    enum Type { float32 = 0, float16 = 2, bfloat16 = 14 };
    enum Compute { in_float32 = 68, in_tfloat32 = 77 };
    enum OfProduct {
        transposes_a = 3,
        transposes_b = 4,
        epilogue = 7,
        bias_pointer = 8,
        bias_apart = 10,
        argument_pointer = 11,
        argument_stride = 12,
        argument_apart = 13
    };
    enum OfMatrix { batch = 5, apart = 6 };
    enum OfPreference {
        most_workspace = 1,
        reductions = 3,
        alignment_a = 5,
        alignment_b = 6,
        alignment_c = 7,
        alignment_d = 8
    };
    static constexpr uint32_t reduces_in_compute_type = 2;  ///< how parts of a sum that is cut into several are added
    enum Epilogue : uint32_t {
        plain = 1,
        relu = 2,
        with_bias = 4,  // alone, or added to relu or gelu
        gelu = 32,
        keeps_argument = 128,  // added to gelu
        d_gelu = 192,
        bias_gradient_of_a = 256
    };
    static constexpr int32_t transpose = 1;

    /// The functions of the library that CRYOLITE_CUBLASLT names, or else of the newest that suits the driver. `driver`
    /// is the driver's CUDA version (12040: 12.4; 0: not known). Throws, with a remedy, where there is no library,
    /// where it is older than 11.5, and where its CUDA is newer than the driver's.
    static const Api &get(int driver = 0);
    void check(Status status, const std::string &what) const;
};

}  // namespace cryolite::of_cublaslt
