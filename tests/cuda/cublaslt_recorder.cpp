#include "tests/cuda/cublaslt_recorder.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tests/support/gelu.h"
#include "tests/cuda/number_formats.h"
#include "tests/cuda/recorder.h"

namespace cryolite::test {

namespace {

CublasLtRecorder state;

/// A descriptor: what it was made with, and its attributes.
struct Object {
    int type = 0, scale = 0;
    int64_t rows = 0, columns = 0, stride = 0;
    std::map<int, int64_t> attributes = {};
    int64_t get(int attribute, int64_t otherwise) const {
        const auto at = attributes.find(attribute);
        return at == attributes.end() ? otherwise : at->second;
    }
    int batch() const { return int(get(5, 1)); }
    int64_t apart() const { return get(6, 0); }
};

constexpr int success = 0, invalid_value = 7, execution_failed = 13, not_supported = 15;
constexpr uint32_t relu = 2, biased = 4, gelu = 32, d_gelu = 64, keeps = 128, bias_gradient_a = 256;

int set(void *object, int attribute, const void *value, size_t bytes) {
    int64_t v = 0;
    if (bytes > sizeof v) return invalid_value;
    std::memcpy(&v, value, bytes);
    if (bytes == 4) v = static_cast<int32_t>(v);
    return static_cast<Object *>(object)->attributes[attribute] = v, success;
}
int destroy(void *object) {
    const auto hold = CudaRecorder::hold();
    return delete static_cast<Object *>(object), state.objects--, success;
}
int create(void **object, const Object &o) {
    const auto hold = CudaRecorder::hold();
    return *object = new Object(o), state.objects++, success;
}

struct Matrix {
    const Object *of;
    char *at;
    bool transposed = false;
    int64_t rows() const { return transposed ? of->columns : of->rows; }
    int64_t columns() const { return transposed ? of->rows : of->columns; }
    float get(int b, int64_t r, int64_t c) const {
        if (transposed) std::swap(r, c);
        return load(at, b * of->apart() + r + c * of->stride, of->type);
    }
    bool is_memory() const {
        const int64_t last = (of->batch() - 1) * of->apart() + (of->columns - 1) * of->stride + of->rows;
        return CudaRecorder::is_memory(at, size_t(last * bytes_of(of->type)));
    }
};

struct Product {
    Object product;
    Object of_a, of_b, of_c, of_d;  // as they were when it was put into the stream
    char *at_a, *at_b, *at_c, *at_d;
    float alpha, beta;
    uint32_t epilogue() const { return uint32_t(product.get(7, 1)); }
    char *bias() const { return reinterpret_cast<char *>(product.get(8, 0)); }
    char *argument() const { return reinterpret_cast<char *>(product.get(11, 0)); }
    Matrix a() const { return {&of_a, at_a, product.get(3, 0) != 0}; }
    Matrix b() const { return {&of_b, at_b, product.get(4, 0) != 0}; }
    Matrix c() const { return {&of_c, at_c}; }
    Matrix d() const { return {&of_d, at_d}; }

    /// What the library's documents ask for; empty: all of it is so.
    std::string wrong() const {
        const int64_t m = of_d.rows, n = of_d.columns;
        if (a().rows() != m || b().columns() != n || a().columns() != b().rows()) return "the extents do not fit";
        if (of_c.rows != m || of_c.columns != n || of_c.type != of_d.type) return "C is not as D";
        for (const Object *o : {&of_a, &of_b, &of_c, &of_d})
            if (o->stride < o->rows || o->batch() != of_d.batch()) return "a stride or a batch does not fit";
        if (of_d.batch() > 1 && of_d.apart() == 0) return "the results of a batch lie on each other";
        const bool half = of_a.type != float32;
        if (of_a.type != of_b.type || (of_d.type != float32 && of_d.type != of_a.type)) return "the types do not fit";
        if (product.type != 68 && (product.type != 77 || half)) return "there is no such compute type";
        const uint32_t e = epilogue();
        static const uint32_t known[] = {1, 2, 4, 6, 32, 36, 160, 164, 192, 256};
        if (std::ranges::find(known, e) == std::end(known)) return "there is no such epilogue";
        if (((e & biased) || e == bias_gradient_a) != (bias() != nullptr)) return "a bias is missing, or is not used";
        if (bool(e & keeps) != (argument() != nullptr)) return "an argument of GELU is missing, or is not used";
        if (argument() && (product.get(12, 0) % 8 || product.get(12, 0) < m)) return "GELU's argument has a bad stride";
        if (argument() && of_d.batch() > 1 && (product.get(13, 0) % 8 || !product.get(13, 0)))
            return "GELU's arguments of a batch lie badly";
        if (bias() && of_d.batch() > 1 && !product.get(10, 0)) return "the biases of a batch lie on each other";
        return "";
    }
    std::string outside(size_t workspace, const void *place) const {
        if (reinterpret_cast<uintptr_t>(place) % 256) return "the workspace is not aligned to 256 bytes";
        if (workspace && !CudaRecorder::is_memory(place, workspace)) return "the workspace is not the GPU's";
        if (!a().is_memory() || !b().is_memory() || !d().is_memory() || (beta != 0 && !c().is_memory()))
            return "a matrix is not in the GPU's memory";
        const int64_t all = (of_d.batch() - 1) * product.get(10, 0) + of_d.rows;
        if (bias() && !CudaRecorder::is_memory(bias(), size_t(all * bytes_of(of_d.type))))
            return "the bias is not in the GPU's memory";
        if (argument() && !Matrix{&of_d, argument()}.is_memory()) return "GELU's argument is not in the GPU's memory";
        return "";
    }
    float factor(const Matrix &m, int batch, int64_t r, int64_t c) const {
        const float x = m.get(batch, r, c);
        return product.type == 77 ? rounded(x, 10) : x;
    }
    void compute() const {
        for (int i = 0; i < of_d.batch(); i++) {
            for (int64_t n = 0; n < of_d.columns; n++)
                for (int64_t m = 0; m < of_d.rows; m++) {
                    float sum = 0;
                    for (int64_t k = 0; k < a().columns(); k++) sum += factor(a(), i, m, k) * factor(b(), i, k, n);
                    finish(i, m, n, alpha * sum);
                }
            if (epilogue() != bias_gradient_a) continue;
            for (int64_t m = 0; m < of_d.rows; m++) {
                float sum = 0;
                for (int64_t k = 0; k < a().columns(); k++) sum += a().get(i, m, k);
                store(bias(), i * product.get(10, 0) + m, of_d.type, sum);
            }
        }
    }
    void finish(int i, int64_t m, int64_t n, float x) const {
        const uint32_t e = epilogue();
        if (beta != 0) x += beta * c().get(i, m, n);
        if (e & biased) x += load(bias(), i * product.get(10, 0) + m, of_d.type);
        const int64_t at = i * product.get(13, 0) + m + n * product.get(12, 0);
        if (e & d_gelu) {
            const float v = load(argument(), at, of_d.type);
            x *= gelu_tanh_slope(v, tanh_of_gelu(v));
        } else if (e & keeps) {
            store(argument(), at, of_d.type, x);
        }
        if (e & gelu) x = gelu_tanh(x, tanh_of_gelu(x));
        if (e & relu) x = std::max(x, 0.0f);
        store(at_d, i * of_d.apart() + m + n * of_d.stride, of_d.type, x);
    }
};

}  // namespace

CublasLtRecorder &CublasLtRecorder::get() { return state; }

}  // namespace cryolite::test

using namespace cryolite::test;

extern "C" {

struct Algorithm {
    uint64_t data[8];
};
struct Candidate {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

size_t cublasLtGetVersion() { return size_t(state.version); }
const char *cublasLtGetStatusName(int status) {
    return status == not_supported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_EXECUTION_FAILED";
}
int cublasLtCreate(void **handle) { return *handle = &state, state.handles++, success; }
int cublasLtDestroy(void *) { return state.handles--, success; }
int cublasLtMatmulDescCreate(void **product, int compute, int scale) {
    return create(product, {.type = compute, .scale = scale});
}
int cublasLtMatmulDescDestroy(void *product) { return destroy(product); }
int cublasLtMatmulDescSetAttribute(void *o, int attribute, const void *v, size_t n) { return set(o, attribute, v, n); }
int cublasLtMatrixLayoutCreate(void **matrix, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    return create(matrix, {.type = type, .rows = int64_t(rows), .columns = int64_t(columns), .stride = stride});
}
int cublasLtMatrixLayoutDestroy(void *matrix) { return destroy(matrix); }
int cublasLtMatrixLayoutSetAttribute(void *o, int attribute, const void *v, size_t n) {
    return set(o, attribute, v, n);
}
int cublasLtMatmulPreferenceCreate(void **preference) { return create(preference, {}); }
int cublasLtMatmulPreferenceDestroy(void *preference) { return destroy(preference); }
int cublasLtMatmulPreferenceSetAttribute(void *o, int attribute, const void *v, size_t n) {
    return set(o, attribute, v, n);
}

int cublasLtMatmulAlgoGetHeuristic(void *, void *product, void *, void *, void *, void *, void *preference, int most,
                                   void *found, int *count) {
    const auto hold = CudaRecorder::hold();
    state.asked++;
    state.reductions = uint32_t(static_cast<Object *>(preference)->get(3, 7));
    *count = 0;
    if (uint32_t(static_cast<Object *>(product)->get(7, 1)) == state.unsupported) return not_supported;
    const auto workspace = size_t(static_cast<Object *>(preference)->get(1, 0));
    for (uint64_t n = 1; n <= uint64_t(state.algorithms) && *count < most; n++)
        if (CublasLtRecorder::workspace(n) <= workspace)
            static_cast<Candidate *>(found)[(*count)++] = {{{n}}, CublasLtRecorder::workspace(n), success, 1, {}};
    return *count ? success : not_supported;
}
int cublasLtMatmulAlgoCheck(void *, void *, void *, void *, void *, void *, const void *algorithm, void *answer) {
    const uint64_t n = static_cast<const Algorithm *>(algorithm)->data[0];
    static_cast<Candidate *>(answer)->workspace = CublasLtRecorder::workspace(n);
    return n == state.refuses || n < 1 || n > uint64_t(state.algorithms) ? invalid_value : success;
}
int cublasLtMatmul(void *, void *product, const void *alpha, const void *a, void *of_a, const void *b, void *of_b,
                   const void *beta, const void *c, void *of_c, void *d, void *of_d, const void *algorithm,
                   void *workspace, size_t workspace_bytes, void *stream) {
    const auto hold = CudaRecorder::hold();
    auto object = [](void *o) { return *static_cast<Object *>(o); };
    auto bytes = [](const void *at) { return static_cast<char *>(const_cast<void *>(at)); };
    const Product p{object(product),
                    object(of_a),
                    object(of_b),
                    object(of_c),
                    object(of_d),
                    bytes(a),
                    bytes(b),
                    bytes(c),
                    bytes(d),
                    *static_cast<const float *>(alpha),
                    *static_cast<const float *>(beta)};
    const uint64_t n = static_cast<const Algorithm *>(algorithm)->data[0];
    std::string wrong = p.wrong();
    if (wrong.empty()) wrong = p.outside(workspace_bytes, workspace);
    if (wrong.empty() && CublasLtRecorder::workspace(n) > workspace_bytes) wrong = "the workspace is too small";
    if (!wrong.empty()) return state.wrong.push_back(wrong), invalid_value;
    if (state.fails_at && --state.fails_at == 0) return execution_failed;
    state.calls.push_back({p.of_d.rows, p.of_d.columns, p.a().columns(), p.of_d.batch(), p.a().transposed,
                           p.b().transposed, p.beta != 0, p.of_a.type, p.of_d.type, p.product.type, p.epilogue(), n});
    CudaRecorder::get().calls.push_back("cublasLtMatmul");
    CudaRecorder::put_into(stream, [p, n] { p.compute(), CudaRecorder::get().clock += CublasLtRecorder::seconds(n); });
    return success;
}
}
