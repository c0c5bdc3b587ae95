#pragma once
// One call of cuBLASLt: D = f(A B + beta C + bias), of matrices whose columns are contiguous.

#include <memory>
#include <string>
#include <vector>

#include "dialects/cublaslt/api.h"
#include "dialects/dialect.h"

namespace cryolite::of_cublaslt {

/// `rows` elements side by side, `columns` of them so far apart; of a batch, matrices so far apart.
struct Matrix {
    void *at = nullptr;
    Api::Type type = Api::float32;
    int64_t rows = 0, columns = 0, stride = 0;
    bool transposed = false;  ///< as a factor
    int64_t apart = 0;
};

struct MatmulCall {
    Matrix a, b, c, d;  ///< c: as d where nothing is added
    bool adds = false;  ///< beta is 1, and not 0
    Api::Compute compute = Api::in_float32;
    int batch = 1;
    uint32_t epilogue = Api::plain;
    void *bias = nullptr;  ///< that is added, or whose gradient is stored
    int64_t bias_apart = 0;
    void *argument = nullptr;  ///< of GELU; it lies as d does
};

/// With its descriptors and the algorithm that was the fastest when it was first met, on this GPU with this library.
class Matmul {
public:
    Matmul(const MatmulCall &call, const ProductPlace &place);
    /// Puts it into the stream. 0, or an error's code.
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
