#pragma once
// One call of cuBLASLt: D = f(A B + beta C + bias), of matrices whose columns are contiguous.

#include <memory>
#include <string>
#include <vector>

#include "dialects/cublaslt/api.h"
#include "dialects/dialect.h"

namespace cryolite::of_cublaslt {

/// Columns of `rows` contiguous elements begin every `stride` elements, the matrices of a batch every `apart` elements.
struct Matrix {
    void *at = nullptr;
    Api::Type type = Api::float32;
    int64_t rows = 0, columns = 0, stride = 0;
    bool transposed = false;  ///< the factor is the transpose of what is stored
    int64_t apart = 0;
};

struct MatmulCall {
    Matrix a, b, c, d;  ///< c is d unless another array is added
    bool adds = false;  ///< beta is 1; otherwise 0
    Api::Compute compute = Api::in_float32;
    int batch = 1;
    uint32_t epilogue = Api::plain;
    void *bias = nullptr;  ///< the bias to add, or where its gradient is stored
    int64_t bias_apart = 0;
    void *argument = nullptr;  ///< GELU's argument, in the layout of d
};

/// A call with its descriptors and its algorithm: the one that was fastest when such a call was first timed on this GPU
/// with this version of the library.
class Matmul {
public:
    Matmul(const MatmulCall &call, const ProductPlace &place);
    /// Puts the call into the stream. Returns 0 or an error code.
    int run(void *context) const;

private:
    using Owned = std::unique_ptr<void, Api::Status (*)(Api::Object)>;
    const Api &api_;
    MatmulCall call_;
    ProductPlace place_;
    Api::Object handle_;
    Owned product_, a_, b_, c_, d_;
    Api::Algorithm algorithm_{};

    Owned describe(const Matrix &m) const;
    void describe_product();
    std::string words() const;
    std::vector<Api::Candidate> candidates() const;
    bool works(const Api::Algorithm &algorithm) const;
    void choose();
    int start(const Api::Algorithm &algorithm) const;
};

}  // namespace cryolite::of_cublaslt
