#pragma once
// oneDNN's primitives with their arguments, each of one thread: parallel loops are the scheduler's.

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

/// While it lives, the library takes this thread for the only one.
class OneThread {
public:
    OneThread();
    ~OneThread();

private:
    int before_;
};

/// A matrix of float32: `rows` of `columns` elements, so far apart.
inline Md matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride = 1) {
    return Md({rows, columns}, dnnl::memory::data_type::f32, Dims{row_stride, column_stride});
}

/// A form of a convolution of some images, with the weight in the format that the library is fastest with.
struct Convolution {
    Product::Form form;
    Md x, weight, y;  ///< the weight's is of any format
    Dims stride, dilation, padding;
    bool bias;

    Md packed() const;
};

/// A primitive with the arrays it works on, whose addresses stay. Primitives that are alike are made once.
class Action {
public:
    /// c = a b (+ bias), or added to c.
    static Action product(const Md &a, float *at_a, const Md &b, float *at_b, const Md &c, float *at_c, float *bias,
                          bool add);
    /// Whether the library has more than its reference loops for it.
    static bool good(const Md &a, const Md &b, const Md &c, bool bias);
    /// y = f(x), or y = y f'(x), elementwise on dense rows; y may be x.
    static Action pointwise(const std::string &op, const Md &rows, float *x, float *y);
    static Action slope(const std::string &op, const Md &rows, float *x, float *y);
    /// y = x, or added to y.
    static Action copy(const Md &from, float *x, const Md &to, float *y, bool add = false);
    /// y += x.
    static Action add(const Md &rows, float *x, float *y);

    /// The form of a convolution; the weight, or its gradient, is its operand 1, and has to be moved to where it lies.
    static Action convolution(const Convolution &c, float *x, float *y, float *bias);

    /// An operand, in the order of the arguments above, lies elsewhere from now on.
    void move(int operand, float *to) { dnnl_memory_set_data_handle(memory_[size_t(operand)].get(), to); }
    /// 0, or an error's code. `context`: whose pool it takes its scratch from.
    int run(void *context) const;

private:
    dnnl::primitive primitive_;
    std::vector<dnnl::memory> memory_;  ///< the last: scratch, if it has any
    std::vector<dnnl_exec_arg_t> arguments_;
    size_t scratch_ = 0;

    void bind(int argument, const Md &md, void *address);
    template <typename Pd> void finish(const Pd &pd);
};

}  // namespace cryolite::of_onednn
