#pragma once
// Operators and functions on tensors: arithmetic, and changes of shape or order. Dimension 0 is the innermost, as
// shapes are written. Each call makes a layer, whose gradient is exact.
// A reshape, or a slice along the outermost dimension, copies nothing where it can be a view. All other functions that
// move elements copy them.

#include "dsl/layers/arrange.h"
#include "dsl/layers/elementwise.h"

namespace cryolite {

/// The output of a new layer L, which the trace owns, called on `x`.
template <typename L, typename... Given> Tensor traced(const std::vector<Tensor> &x, Given &&...given) {
    Graph &g = x.at(0).graph();
    return g.call(g.own(std::make_unique<L>(std::forward<Given>(given)...)), x);
}

/// `x` repeated where its extent is 1, or where it lacks outer dimensions. Errors: another extent differs.
inline Tensor broadcast(const Tensor &x, const Shape &shape) {
    return x.shape() == shape ? x : traced<Broadcast>({x}, x.shape(), shape);
}
/// Two tensors in the shape that both can be broadcast to.
std::pair<Tensor, Tensor> matched(const std::string &path, const Tensor &x, const Tensor &y);

/// x op y, elementwise, broadcast as for `+`: counted from the innermost dimension, two extents are equal, or one of
/// them is 1 or missing. Errors: other extents (both shapes are named).
template <typename L> Tensor elementwise(const Tensor &x, const Tensor &y) {
    const auto [a, b] = matched(L().path, x, y);
    return traced<L>({a, b});
}
inline Tensor operator-(const Tensor &x, const Tensor &y) { return elementwise<Subtract>(x, y); }
inline Tensor operator*(const Tensor &x, const Tensor &y) { return elementwise<Multiply>(x, y); }
inline Tensor operator/(const Tensor &x, const Tensor &y) { return elementwise<Divide>(x, y); }
/// The same with a number. Errors: it is not finite.
inline Tensor operator+(const Tensor &x, double c) { return traced<Plus>({x}, c); }
inline Tensor operator+(double c, const Tensor &x) { return x + c; }
inline Tensor operator-(const Tensor &x, double c) { return x + -c; }
inline Tensor operator-(const Tensor &x) { return -1.0 * x; }
inline Tensor operator-(double c, const Tensor &x) { return -x + c; }
inline Tensor operator/(const Tensor &x, double k) { return 1 / k * x; }

/// Tensors one after the other along `dim`. Errors: there are none, or another extent differs.
inline Tensor concat(const std::vector<Tensor> &x, int dim) {
    if (x.empty()) fail("[concat] of no tensors");
    std::vector<Shape> shapes;
    for (const Tensor &t : x) shapes.push_back(t.shape());
    return traced<Concat>(x, shapes, dim);
}
/// Elements begin ... end - 1 along `dim`.
inline Tensor slice(const Tensor &x, int dim, int begin, int end) {
    return traced<Slice>({x}, x.shape(), dim, begin, end);
}
/// The same elements in the same order. Errors: `shape` has another number of elements.
inline Tensor reshape(const Tensor &x, const Shape &shape) { return traced<Reshape>({x}, x.shape(), shape); }
/// Dimension k of the result is dimension order[k] of x.
inline Tensor permute(const Tensor &x, const std::vector<int> &order) { return traced<Permute>({x}, x.shape(), order); }
/// x with dimensions a and b swapped.
inline Tensor transpose(const Tensor &x, int a = 0, int b = 1) {
    std::vector<int> order;
    for (int k = 0; k < x.shape().rank(); k++) order.push_back(k == a ? b : k == b ? a : k);
    return permute(x, order);
}
/// The sum, or the mean, over dimension `dim`, which the result lacks; of a vector, one number: [1].
inline Tensor sum(const Tensor &x, int dim) { return traced<Reduce>({x}, "sum", x.shape(), dim); }
inline Tensor mean(const Tensor &x, int dim) {
    const int n = dim >= 0 && dim < x.shape().rank() ? x.shape()[dim] : 1;  // another dim is refused by Reduce
    return traced<Reduce>({x}, "mean", x.shape(), dim, 1.0 / n);
}
/// The same value, but a constant to gradients: a teacher's output, a target that the model computes.
inline Tensor stop_gradient(const Tensor &x) { return traced<StopGradient>({x}); }

}  // namespace cryolite
