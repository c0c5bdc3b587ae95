#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// loss = mean over rows of what outputs x and their aims t, of one shape, make of each row.
/// x, t: [n, ...rows] -> [1]. `aims` is what errors call t.
struct RowLoss : Layer2 {
    explicit RowLoss(std::string path, std::string aims = "targets") : Layer2(std::move(path)), aims(std::move(aims)) {}

    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1])
            fail("[{}] has outputs {} but {} {}: the shapes must match", path, x[0].str(), aims, x[1].str());
        return {1};
    }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }

protected:
    Var i{"i"}, r{"r"}, u{"u"};

    static Expr number(const Halide::Type &type, double v) { return cast(type, Expr(v)); }
    /// of_row(r) / rows, added over rows: loops find the loss of a row by that Func's name.
    Func mean_over_rows(const Func &of_row, int rows) const {
        Func loss("loss");
        RDom m(0, rows, "m");
        loss(u) += of_row(m) / rows;
        return loss;
    }

private:
    const std::string aims;
};

/// loss = mean over elements of value(x, t).
struct ElementwiseLoss : RowLoss {
    using RowLoss::RowLoss;

    /// Of one element; t has x's number type, whatever targets are stored in.
    virtual Expr value(Expr x, Expr t) const = 0;
    /// Its derivatives by x, and by t: those of a function of x - t unless written.
    virtual Expr slope(Expr x, Expr t) const = 0;
    virtual Expr slope_by_target(Expr x, Expr t) const { return -slope(x, t); }

    Func forward(Array x, Array target) override {
        Func sum("sum"), of_row("of_row");
        RDom k(0, x.extent(0), "k");
        sum(r) += value(x(k, r), cast(x.type(), target(k, r)));
        of_row(r) = sum(r) / x.extent(0);
        return mean_over_rows(of_row, x.extent(1));
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &target = call.input(1);
        const Expr t = cast(x.type(), target(i, r));
        Func weight("weight");
        weight() = dy(0) / (x.extent(0) * x.extent(1));
        d(x)(i, r) = slope(x(i, r), t) * weight();
        if (target.type().is_float()) d(target)(i, r) = slope_by_target(x(i, r), t) * weight();
    }
};

}  // namespace cryolite
