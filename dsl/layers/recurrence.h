#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// h(i, t, n) = a(i, t, n) h(i, t - 1, n) + b(i, t, n), h(i, -1, n) = 0: a gated linear recurrence along the sequence.
/// `a` is the share of h that stays from one position to the next, a sigmoid's output, say; `b` is what is added.
/// a, b: [width, context, batch] -> the same.   Errors: other dimensions; the two shapes differ.
/// Parallelizing Linear Recurrent Neural Nets Over Sequence Length, Martin and Cundy, 2018.
struct LinearRecurrence : Layer2 {
    using Layer2::Layer2;
    int rank() const override { return 3; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0].rank() != 3) fail("[{}] input {} is not [width, context, batch]", path, x[0].str());
        if (x[0] != x[1]) fail("[{}] has gates {} for inputs {}: the shapes must match", path, x[0].str(), x[1].str());
        return x[0];
    }
    double flops(const Shape &x) const override { return 2.0 * double(x.size()); }

    Func forward(Array a, Array b) override {
        Func h("h");
        h(i, t, n) = b(i, t, n);
        if (const int context = a.extent(1); context > 1) {
            RDom k(1, context - 1, "k");
            h(i, k, n) += a(i, k, n) * h(i, k - 1, n);
        }
        return h;
    }
    /// d(b)(t) = dy(t) + a(t + 1) d(b)(t + 1), from the end to the beginning; d(a)(t) = d(b)(t) h(t - 1).
    void backward(const Call &call, Array dy) override {
        const Array &a = call.input(0), &h = call.output;
        Func back("back");
        back(i, t, n) = dy(i, t, n);
        if (const int context = a.extent(1); context > 1) {
            RDom k(0, context - 1, "k");
            const Expr later = context - 1 - k;
            back(i, later - 1, n) += a(i, later, n) * back(i, later, n);
        }
        d(a)(i, t, n) = back(i, t, n) * select(t > 0, h(i, max(t - 1, 0), n), cast(dy.type(), 0));
        d(call.input(1))(i, t, n) = back(i, t, n);
    }

private:
    Var i{"i"}, t{"t"}, n{"n"};
};

}  // namespace cryolite
