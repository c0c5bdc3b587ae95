#pragma once
// oneDNN's primitives with their arguments. Each runs on one thread: parallel loops are the scheduler's.

#include <dnnl.hpp>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dialects/product.h"

namespace cryolite::of_onednn {

using Dims = dnnl::memory::dims;
using Md = dnnl::memory::desc;

dnnl::engine &engine();
dnnl::stream &stream();

/// During its lifetime the library uses the calling thread alone.
class OneThread {
public:
    OneThread();
    ~OneThread();

private:
    int before_;
};

/// A matrix of float32. Its rows are `row_stride` elements apart, its columns `column_stride`.
inline Md matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride = 1) {
    return Md({rows, columns}, dnnl::memory::data_type::f32, Dims{row_stride, column_stride});
}

/// A form of a convolution of some images, with the weight in the format with which the library is fastest.
struct Convolution {
    Product::Form form;
    Md x, weight, y;  ///< `weight` leaves the format to the library
    Dims stride, dilation, padding;
    bool bias;

    /// The weight in the format that the library chose.
    Md packed() const;
};

/// A primitive with the arrays that it works on, whose addresses only `move` changes. Equal primitives are made once.
class Action {
public:
    /// c = a b (+ bias); with `add`, c += a b (+ bias).
    static Action product(const Md &a, float *at_a, const Md &b, float *at_b, const Md &c, float *at_c, float *bias,
                          bool add);
    /// Whether the library computes this product by more than its reference loops.
    static bool good(const Md &a, const Md &b, const Md &c, bool bias);
    /// y = f(x) by `pointwise`, y = y f'(x) by `slope`, elementwise on dense rows; y may be x.
    static Action pointwise(const std::string &op, const Md &rows, float *x, float *y);
    static Action slope(const std::string &op, const Md &rows, float *x, float *y);
    /// y = x; with `add`, y += x.
    static Action copy(const Md &from, float *x, const Md &to, float *y, bool add = false);
    /// y += x.
    static Action add(const Md &rows, float *x, float *y);

    /// A form of a convolution. Operand 1 is the weight or its gradient, whose address has to be given by `move`.
    static Action convolution(const Convolution &c, float *x, float *y, float *bias);

    /// Gives an operand a new address. Operands are numbered in the order of the arguments above.
    void move(int operand, float *to) { dnnl_memory_set_data_handle(memory_[size_t(operand)].get(), to); }
    /// Returns 0 or an error code. Scratch memory comes from the pool of `context`.
    int run(void *context) const;

private:
    dnnl::primitive primitive_;
    std::vector<dnnl::memory> memory_;  ///< the last is scratch memory, if the primitive needs any
    std::vector<dnnl_exec_arg_t> arguments_;
    size_t scratch_ = 0;

    void bind(int argument, const Md &md, void *address);
    template <typename Pd> void finish(const Pd &pd);
};

}  // namespace cryolite::of_onednn
