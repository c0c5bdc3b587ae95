// Products by NVIDIA's cuBLASLt. Its matrices have contiguous columns: an array [in, rows], innermost extent first, is
// a matrix of `in` rows to it. The panels of a weight are a batch, but a narrower last panel is a call of its own.

#include "dialects/cublaslt/can.h"

#include <HalideRuntime.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "dialects/cublaslt/matmul.h"

namespace cryolite::of_cublaslt {

namespace {

Api::Type type_of(const std::string &name) {
    return name == "float16" ? Api::float16 : name == "bfloat16" ? Api::bfloat16 : Api::float32;
}

int64_t bytes_of(Api::Type type) { return type == Api::float32 ? 4 : 2; }

Matrix moved(Matrix m, int64_t elements) {
    m.at = static_cast<char *>(m.at) + elements * bytes_of(m.type);
    return m;
}

/// Aligns the workspace, since the arena aligns its places to less than the library asks for. The usable bytes do not
/// depend on the address, because they are part of the key of a remembered algorithm.
ProductPlace aligned(ProductPlace place) {
    constexpr size_t alignment = workspace_alignment;
    size_t left = place.workspace_bytes;
    place.workspace_bytes = left > alignment ? left - alignment : 0;
    if (!std::align(alignment, place.workspace_bytes, place.workspace, left) || place.workspace_bytes == 0)
        place.workspace = nullptr, place.workspace_bytes = 0;
    return place;
}

/// A copy of the rows of a matrix, whose columns they are to the library.
struct RowCopy {
    Matrix from, to;
    int run(void *context, GpuStream &gpu) const {
        const int64_t bytes = bytes_of(from.type);
        const std::string error = gpu.copy_rows(to.at, size_t(to.stride * bytes), from.at, size_t(from.stride * bytes),
                                                size_t(from.rows * bytes), size_t(from.columns));
        if (error.empty()) return 0;
        halide_error(context, ("copying rows for cublasLtMatmul: " + error).c_str());
        return halide_error_code_device_buffer_copy_failed;
    }
};

class ReadyProduct : public Ready {
public:
    ReadyProduct(const Product &p, const ProductPlace &place) : p(p), place(aligned(place)) {
        if (const std::string why = why_not(p); !why.empty()) throw std::runtime_error(why);
        read_epilogue(p, epilogue);
        if (p.inputs_innermost)
            of_table();
        else if (p.form == Product::d_input)
            d_input();
        else
            by_columns();
    }
    int run(void *context) override {
        if (before)
            if (const int code = before->run(context, *place.gpu)) return code;
        for (const Matmul &m : calls)
            if (const int code = m.run(context)) return code;
        return after ? after->run(context, *place.gpu) : 0;
    }

private:
    const Product p;
    ProductPlace place;
    Epilogue epilogue;
    std::optional<RowCopy> before, after;
    std::vector<Matmul> calls;

    void *argument(int number) const { return number < 0 ? nullptr : place.arguments.at(size_t(number)); }
    Matrix factor(int number, int64_t rows, int64_t columns) const {
        return {argument(number), type_of(p.type), rows, columns, rows};
    }
    Matrix result(int number, int64_t rows, int64_t columns) const {
        return {argument(number), type_of(p.result), rows, columns, rows};
    }
    MatmulCall call(const Matrix &a, const Matrix &b, const Matrix &d) const {
        MatmulCall c{.a = a, .b = b, .c = d, .d = d};
        c.compute = p.type == "tfloat32" ? Api::in_tfloat32 : Api::in_float32;
        return c;
    }
    /// Adds the epilogue to a call whose results begin at element `first` of the product's arrays.
    void finish(MatmulCall &c, int64_t first) const {
        const Api::Type type = type_of(p.result);
        auto from = [&](int number) { return moved({argument(number), type}, first).at; };
        if (epilogue.add >= 0) c.c.at = from(epilogue.add), c.adds = true;
        if (epilogue.function == "relu") c.epilogue = Api::relu;
        if (epilogue.function == "gelu_tanh") c.epilogue = Api::gelu;
        if (epilogue.function == "gelu_tanh" && epilogue.argument >= 0) c.epilogue |= Api::keeps_argument;
        if (epilogue.function == "d_gelu_tanh") c.epilogue = Api::d_gelu;
        if (epilogue.argument >= 0) c.argument = from(epilogue.argument);
        if (epilogue.bias < 0) return;
        c.epilogue = (c.epilogue == Api::plain ? 0 : c.epilogue) | Api::with_bias;
        c.bias = from(epilogue.bias);
    }

    /// y = W x and dW = dy x'. All whole panels of `out` are one call, a narrower last panel is another.
    void by_columns() {
        const bool forward = p.form == Product::forward;
        const Matrix x = factor(p.x, p.in, p.rows), dy = factor(p.dy, p.out, p.rows);
        auto add = [&](int64_t begin, int64_t count, int64_t stride, int batch) {
            Matrix W = forward ? factor(p.weight, count, p.in) : result(epilogue.result, count, p.in);
            W = moved(W, begin * p.in);
            W.stride = stride, W.apart = stride * p.in;
            Matrix rows = forward ? result(epilogue.result, count, p.rows) : dy;
            rows = moved(rows, begin);
            rows.rows = count, rows.stride = p.out, rows.apart = count;
            MatmulCall c = forward ? call(W, x, rows) : call(rows, x, W);
            c.b.transposed = !forward, c.batch = batch, c.bias_apart = count;
            finish(c, begin);
            if (p.accumulate) c.adds = true;
            if (p.bias_gradient >= 0) {
                c.epilogue = Api::bias_gradient_of_a;
                c.bias = moved(result(p.bias_gradient, p.out, 1), begin).at;
            }
            calls.emplace_back(c, place);
        };
        if (!p.panel) return add(0, p.out, p.out, 1);
        const int whole = p.out / p.panel, ragged = p.out % p.panel;
        if (whole) add(0, p.panel, p.panel, whole);
        if (ragged) add(int64_t(whole) * p.panel, ragged, p.panel, 1);
    }

    /// Where the scratch memory has room, a place in it for y or dy, with rows that begin where tensor cores want them.
    /// The algorithms get the rest.
    Matrix aligned_rows(Matrix m) {
        const int64_t stride = aligned_stride(p), bytes = aligned_bytes(p);
        if (!stride || int64_t(place.workspace_bytes) <= bytes) return m;
        Matrix copy = m;
        copy.at = place.workspace, copy.stride = stride;
        place.workspace = static_cast<char *>(place.workspace) + bytes;
        place.workspace_bytes -= size_t(bytes);
        if (p.form == Product::forward)
            after = {copy, m};
        else
            before = {m, copy};
        return copy;
    }

    /// All forms where W' is stored (inputs innermost): y = (W')' x, dx = W' dy, dW' = x dy'.
    void of_table() {
        const Matrix x = factor(p.x, p.in, p.rows);
        const Matrix rows = aligned_rows(p.form == Product::forward ? result(epilogue.result, p.out, p.rows)
                                                                    : factor(p.dy, p.out, p.rows));
        auto add = [&](int64_t begin, int64_t count, bool to_dx) {
            auto of_table = [&](const Matrix &all) {
                Matrix m = moved(all, begin * p.in);
                m.columns = count;
                return m;
            };
            Matrix of_rows = moved(rows, begin);
            of_rows.rows = count;
            const Matrix W = of_table(factor(p.weight, p.in, p.out));
            MatmulCall c;
            if (p.form == Product::forward) {
                c = call(W, x, of_rows);
                c.a.transposed = true;
            } else if (p.form == Product::d_input) {
                c = call(W, of_rows, result(epilogue.result, p.in, p.rows));
            } else {
                c = call(x, of_rows, of_table(result(epilogue.result, p.in, p.out)));
                c.b.transposed = true;
            }
            finish(c, begin);
            if (p.accumulate || to_dx) c.adds = true;
            calls.emplace_back(c, place);
        };
        // Tensor cores take whole groups of elements. The few beyond them are a call of their own, before the others:
        // dx is then rounded after a few of its terms, and after all.
        const bool copied = before || after;
        const int whole = copied ? p.out / group_of(p) * group_of(p) : p.out;
        if (whole < p.out) add(whole, p.out - whole, false);
        add(0, whole, p.form == Product::d_input && whole < p.out);
    }

    /// dx = W' dy, with one call for each panel. The first adds the epilogue's array, the later ones add to dx, and the
    /// last multiplies by the slope.
    void d_input() {
        const int width = p.panel ? p.panel : p.out;
        const Matrix dx = result(epilogue.result, p.in, p.rows);
        for (int o = 0; o < p.out; o += width) {
            const int count = std::min(width, p.out - o);
            Matrix W = moved(factor(p.weight, count, p.in), int64_t(o) * p.in);
            W.stride = width, W.transposed = true;
            Matrix dy = moved(factor(p.dy, p.out, p.rows), o);
            dy.rows = count;
            MatmulCall c = call(W, dy, dx), with = c;
            finish(with, 0);
            if (o == 0) c.c = with.c, c.adds = with.adds;
            if (o > 0) c.adds = true;
            if (o + count == p.out) c.epilogue = with.epilogue, c.argument = with.argument;
            calls.emplace_back(c, place);
        }
    }
};

class CublasLt : public Dialect {
public:
    std::string version() const override { return "cuBLASLt " + std::to_string(Api::get().version()); }
    std::string missing() const override {
        try {
            Api::get();
        } catch (const std::runtime_error &e) {
            return e.what();
        }
        return "";
    }
    std::unique_ptr<Ready> prepare(const Product &p, const ProductPlace &place) const override {
        if (!place.gpu) throw std::runtime_error("it is not on a GPU");
        return std::make_unique<ReadyProduct>(p, place);
    }
};

}  // namespace

}  // namespace cryolite::of_cublaslt

extern "C" const cryolite::Dialect *cryolite_dialect() {
    static const cryolite::of_cublaslt::CublasLt one;
    return &one;
}
