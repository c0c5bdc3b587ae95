#pragma once
// The layers behind the functions on tensors (dsl/tensor.h) that move, repeat or add up elements. Dimension 0 is the
// innermost.

#include <algorithm>

#include "dsl/layers/copy.h"

namespace cryolite {

/// A layer that sees every dimension of its tensors. Their shape is known when the layer is made.
struct Arrange : Layer {
    Arrange(std::string path, const Shape &x) : Layer(std::move(path)), of(x) {}
    int rank() const override { return of.rank(); }
    double flops(const Shape &) const override { return 0; }

protected:
    const Shape of;  ///< shape of the first input

    /// Errors: the input has another shape than the layer was made for.
    void check_made_for(const Shape &expected, const Shape &x) const {
        if (x != expected) fail("[{}] was made for an input of shape {}, not {}", path, expected.str(), x.str());
    }
    void check_dim(int dim) const {
        if (dim < 0 || dim >= of.rank())
            fail("[{}] is along dimension {} of {}: dimensions are 0, the innermost, to {}", path, dim, of.str(),
                 of.rank() - 1);
    }
    static std::vector<Var> vars(int rank) {
        std::vector<Var> v;
        for (int d = 0; d < rank; d++) v.emplace_back(fmt::format("i{}", d));
        return v;
    }
    static std::vector<Expr> exprs(const std::vector<Var> &v) { return {v.begin(), v.end()}; }
};

/// Several tensors one after the other along a dimension: z(.., i, ..) = x_k(.., i - begin_k, ..), where x_k begins at
/// begin_k. All other extents are equal.
struct Concat : Arrange {
    const int dim;

    Concat(const std::vector<Shape> &x, int dim) : Arrange("concat", x.at(0)), dim(dim) {
        check_dim(dim);
        for (const Shape &s : x) {
            if (s.rank() != of.rank() || s.with(dim, 1) != of.with(dim, 1))
                fail("[concat] of {} and {} along dimension {}: all other extents must match", of.str(), s.str(), dim);
            begins.push_back(begins.empty() ? 0 : begins.back() + extents.back());
            extents.push_back(s[dim]);
        }
    }
    std::optional<std::string> attributes() const override { return std::to_string(dim); }
    Shape shape(const std::vector<Shape> &x) const override {
        for (size_t k = 0; k < x.size(); k++) check_made_for(of.with(dim, extents.at(k)), x[k]);
        return of.with(dim, begins.back() + extents.back());
    }
    Func forward(const std::vector<Array> &x) override {
        Func z("z");
        const std::vector<Var> v = vars(of.rank());
        Expr element;
        for (size_t k = x.size(); k-- > 0;) {
            std::vector<Expr> at = exprs(v);
            at[size_t(dim)] = clamp(at[size_t(dim)] - begins[k], 0, extents[k] - 1);
            element =
                element.defined() ? select(v[size_t(dim)] < begins[k] + extents[k], x[k](at), element) : Expr(x[k](at));
        }
        z(v) = element;
        return z;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Var> v = vars(of.rank());
        for (size_t k = 0; k < call.inputs.size(); k++) {
            std::vector<Expr> at = exprs(v);
            at[size_t(dim)] += begins[k];
            d(call.inputs[k])(v) = dy(at);
        }
    }

    /// Where input `k` begins along the dimension.
    int begin(int k) const { return begins.at(size_t(k)); }

private:
    std::vector<int> begins, extents;
};

/// Elements begin ... end - 1 along a dimension: z(.., i, ..) = x(.., begin + i, ..).
struct Slice : Arrange {
    const int dim, begin, end;

    Slice(const Shape &x, int dim, int begin, int end) : Arrange("slice", x), dim(dim), begin(begin), end(end) {
        check_dim(dim);
        if (begin < 0 || end <= begin || end > x[dim])
            fail("[slice] takes {} to {} along dimension {} of {}: expected 0 <= begin < end <= {}", begin, end, dim,
                 x.str(), x[dim]);
    }
    std::optional<std::string> attributes() const override { return fmt::format("{} {} {}", dim, begin, end); }
    Shape shape(const Shape &x) const override {
        check_made_for(of, x);
        return of.with(dim, end - begin);
    }
    Func forward(Array x) override {
        Func z("z");
        const std::vector<Var> v = vars(of.rank());
        std::vector<Expr> at = exprs(v);
        at[size_t(dim)] += begin;
        z(v) = x(at);
        return z;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Var> v = vars(of.rank());
        const Var &i = v[size_t(dim)];
        std::vector<Expr> at = exprs(v);
        at[size_t(dim)] = clamp(i - begin, 0, end - begin - 1);
        d(call.input())(v) = select(i >= begin && i < end, dy(at), cast(dy.type(), 0));
    }
};

/// Dimensions in another order: dimension k of z is dimension order[k] of x.
struct Permute : Arrange {
    Permute(const Shape &x, std::vector<int> order) : Arrange("permute", x), order(std::move(order)) {
        std::vector<int> sorted = this->order, all;
        std::ranges::sort(sorted);
        for (int k = 0; k < x.rank(); k++) all.push_back(k);
        if (sorted != all)
            fail("[permute] of {} has the order {}: each of its dimensions, 0 to {}, is expected once", x.str(),
                 Shape(this->order).str(), x.rank() - 1);
    }
    const std::vector<int> order;
    std::optional<std::string> attributes() const override { return fmt::format("{}", fmt::join(order, " ")); }
    Shape shape(const Shape &x) const override {
        std::vector<int> e;
        for (int k : order) e.push_back(x[k]);
        return Shape(e);
    }
    Func forward(Array x) override {
        Func z("z");
        const std::vector<Var> v = vars(of.rank());
        std::vector<Expr> at = exprs(v);
        for (size_t k = 0; k < order.size(); k++) at[size_t(order[k])] = v[k];
        z(v) = x(at);
        return z;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Var> v = vars(of.rank());
        std::vector<Expr> at;
        for (int k : order) at.push_back(v[size_t(k)]);
        d(call.input())(v) = dy(at);
    }
};

/// The same elements, in the same order, in other extents.
struct Reshape : Refold {
    Reshape(const Shape &x, Shape z) : Refold("reshape"), z(std::move(z)) { check_size(x); }
    std::optional<std::string> attributes() const override { return z.str(); }
    Shape shape(const Shape &x) const override {
        check_size(x);
        return z;
    }
    double flops(const Shape &) const override { return 0; }

private:
    const Shape z;
    void check_size(const Shape &x) const {
        if (x.size() != z.size())
            fail("[reshape] of {} to {}: the number of elements would change from {} to {}", x.str(), z.str(), x.size(),
                 z.size());
    }
};

/// The sum over a dimension, which z lacks, times `scale`: z(..) = scale * sum over i of x(.., i, ..).
struct Reduce : Arrange {
    Reduce(const std::string &path, const Shape &x, int dim, double scale = 1)
        : Arrange(path, x), dim(dim), scale(scale) {
        check_dim(dim);
    }
    std::optional<std::string> attributes() const override { return fmt::format("{} {}", dim, scale); }
    int output_rank() const override { return std::max(of.rank() - 1, 1); }
    Shape shape(const Shape &x) const override {
        check_made_for(of, x);
        std::vector<int> e = x.extents();
        e.erase(e.begin() + dim);
        return e.empty() ? Shape{1} : Shape(e);
    }
    double flops(const Shape &x) const override { return double(x.size()); }
    Func forward(Array x) override {
        Func sum("sum"), z("z");
        const std::vector<Var> v = vars(output_rank());
        RDom i(0, of[dim], "i");
        std::vector<Expr> at = exprs(v);
        at.resize(size_t(of.rank() - 1));
        at.insert(at.begin() + dim, Expr(i));
        sum(v) += x(at);
        if (scale == 1) return sum;
        z(v) = sum(v) * cast(x.type(), Expr(scale));
        return z;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Var> v = vars(of.rank());
        std::vector<Expr> at = exprs(v);
        at.erase(at.begin() + dim);
        if (at.empty()) at = {0};
        d(call.input())(v) = dy(at) * cast(dy.type(), Expr(scale));
    }

private:
    const int dim;
    const double scale;
};

/// Repeats x where its extent is 1, or where it lacks outer dimensions: z(.., i, ..) = x(.., 0, ..).
struct Broadcast : Arrange {
    Broadcast(const Shape &x, Shape to) : Arrange("broadcast", x), z(std::move(to)) {
        bool fits = of.rank() <= z.rank();
        for (int k = 0; fits && k < of.rank(); k++) fits = of[k] == z[k] || of[k] == 1;
        if (!fits) fail("[broadcast] of {} to {}: its extents must match, or be 1", of.str(), z.str());
    }
    std::optional<std::string> attributes() const override { return z.str(); }
    int output_rank() const override { return z.rank(); }
    Shape shape(const Shape &x) const override {
        check_made_for(of, x);
        return z;
    }
    Func forward(Array x) override {
        Func y("z");
        const std::vector<Var> v = vars(z.rank());
        std::vector<Expr> at = exprs(v);
        at.resize(size_t(of.rank()));
        for (int k = 0; k < of.rank(); k++)
            if (repeats(k)) at[size_t(k)] = 0;
        y(v) = x(at);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Var> v = vars(of.rank());
        Halide::Region repeated;
        for (int k = 0; k < z.rank(); k++)
            if (repeats(k)) repeated.emplace_back(0, z[k]);
        std::vector<Expr> at = exprs(v);
        at.resize(size_t(z.rank()), 0);
        if (repeated.empty()) return void(d(call.input())(v) = dy(at));
        RDom r(repeated, "r");
        for (int k = 0, j = 0; k < z.rank(); k++)
            if (repeats(k)) at[size_t(k)] = r[j++];
        d(call.input())(v) += dy(at);
    }

private:
    const Shape z;
    bool repeats(int k) const { return z[k] != (k < of.rank() ? of[k] : 1); }
};

/// y = x, through which no gradient flows.
struct StopGradient : Copy {
    StopGradient() : Copy("stop_gradient") {}
    std::optional<std::string> attributes() const override { return ""; }
    bool differentiates(int) const override { return false; }
};

}  // namespace cryolite
