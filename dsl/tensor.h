#pragma once
// What a model writes with tensors as with numbers, and what brings them into another shape. Dimensions count from
// the innermost, 0, as shapes are written. Each makes a layer, whose gradient is exact.
// A reshape, and a slice along the outermost dimension, copies nothing where it can be a view; what else moves elements
// copies them.

#include "dsl/layers/arrange.h"
#include "dsl/layers/elementwise.h"

namespace cryolite {

/// A layer of the trace's own, called on these.
template <typename L, typename... Given> Tensor traced(const std::vector<Tensor> &x, Given &&...given) {
    Graph &g = x.at(0).graph();
    return g.call(g.own(std::make_unique<L>(std::forward<Given>(given)...)), x);
}

/// Repeated where its extent is 1, or where it lacks outer dimensions. Errors: another extent differs.
inline Tensor broadcast(const Tensor &x, const Shape &shape) {
    return x.shape() == shape ? x : traced<Broadcast>({x}, x.shape(), shape);
}
/// Two tensors in the shape that both can be broadcast to.
std::pair<Tensor, Tensor> matched(const std::string &path, const Tensor &x, const Tensor &y);

/// x op y, elementwise; so is `+`. Counted from the innermost, extents match, or one is 1, or only one tensor has them.
/// Errors: they do not (both shapes are named).
template <typename L> Tensor elementwise(const Tensor &x, const Tensor &y) {
    const auto [a, b] = matched(L().path, x, y);
    return traced<L>({a, b});
}
inline Tensor operator-(const Tensor &x, const Tensor &y) { return elementwise<Subtract>(x, y); }
inline Tensor operator*(const Tensor &x, const Tensor &y) { return elementwise<Multiply>(x, y); }
inline Tensor operator/(const Tensor &x, const Tensor &y) { return elementwise<Divide>(x, y); }
/// With a number. Errors: it is not finite.
inline Tensor operator+(const Tensor &x, double c) { return traced<Plus>({x}, c); }
inline Tensor operator+(double c, const Tensor &x) { return x + c; }
inline Tensor operator-(const Tensor &x, double c) { return x + -c; }
inline Tensor operator-(const Tensor &x) { return -1.0 * x; }
inline Tensor operator-(double c, const Tensor &x) { return -x + c; }
inline Tensor operator/(const Tensor &x, double k) { return 1 / k * x; }

/// One after the other along `dim`; all other extents match.
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
/// The same elements in the same order. Errors: as many are not in that shape.
inline Tensor reshape(const Tensor &x, const Shape &shape) { return traced<Reshape>({x}, x.shape(), shape); }
/// Dimension k of the result is dimension order[k] of x.
inline Tensor permute(const Tensor &x, const std::vector<int> &order) { return traced<Permute>({x}, x.shape(), order); }
/// Two dimensions change places.
inline Tensor transpose(const Tensor &x, int a = 0, int b = 1) {
    std::vector<int> order;
    for (int k = 0; k < x.shape().rank(); k++) order.push_back(k == a ? b : k == b ? a : k);
    return permute(x, order);
}
/// Over a dimension, which then is gone; of a vector, one number.
inline Tensor sum(const Tensor &x, int dim) { return traced<Reduce>({x}, "sum", x.shape(), dim); }
inline Tensor mean(const Tensor &x, int dim) {
    const int n = dim >= 0 && dim < x.shape().rank() ? x.shape()[dim] : 1;  // else it is refused
    return traced<Reduce>({x}, "mean", x.shape(), dim, 1.0 / n);
}
/// A constant from here on: a teacher's output, a target that the model makes.
inline Tensor stop_gradient(const Tensor &x) { return traced<StopGradient>({x}); }

}  // namespace cryolite
