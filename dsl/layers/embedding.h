#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// y(c, r) = table(c, ids(r)).   ids: [...rows] int32 -> y: [width, ...rows].   table: [width, vocab].
struct Embedding : Layer {
    const int vocab, width;
    Parameter table;

    Embedding(std::string path, int vocab, int width, Init init = normal(0.02))
        : Layer(std::move(path)), vocab(vocab), width(width), table{this, "weight", {width, vocab}, init} {}

    /// The product with the transposed table: a tied head. x: [width, ...rows] -> [vocab, ...rows].
    Tensor transposed(const Tensor &x);

    int input_rank(int) const override { return 1; }
    Shape shape(const Shape &ids) const override {
        std::vector<int> e = ids.extents();
        e.insert(e.begin(), width);
        return Shape(e);
    }
    bool scatters() const override { return true; }
    double flops(const Shape &) const override { return 0; }

    Func forward(Array ids) override {
        Func y("y");
        Var c("c"), r("r");
        y(c, r) = table(c, row(ids(r)));
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array ids = call.input();
        RDom m(0, dy.extent(1), "m");
        Var c("c"), v("v");
        d(table)(c, v) = cast(dy.type(), 0);
        d(table)(c, row(ids(m))) += dy(c, m);
    }
    bool factored(const Parameter &) const override { return true; }
    Factors factors(const Parameter &, const Call &call, const Array &dy) override {
        Func place("place");
        Var m("m");
        place(m) = row(call.input()(m));
        return {{dy, width}, {place, vocab, true}, dy.extent(1)};
    }

private:
    // The data loader has checked every id; the clamp tells Halide the bounds.
    Expr row(Expr id) const { return clamp(id, 0, vocab - 1); }
};

/// y(c, t, ...) = x(c, t, ...) + table(c, t): dimension 1 counts positions.
/// x: [width, context, ...] -> same.   table: [width, positions], positions >= context.
struct Positions : Layer {
    const int width, positions;
    Parameter table;

    Positions(std::string path, int positions, int width, Init init = normal(0.02))
        : Layer(std::move(path)), width(width), positions(positions), table{this, "weight", {width, positions}, init} {}

    int rank() const override { return 3; }
    Nature nature() const override { return Nature::pointwise; }
    Shape shape(const Shape &x) const override {
        if (x.rank() < 2) fail("[{}] input {} is not [width, context, batch]", path, x.str());
        if (x[0] != width) fail("[{}] input has {} channels, expected {}", path, x[0], width);
        if (x[1] > positions) fail("[{}] context {} is longer than the {} positions", path, x[1], positions);
        return x;
    }
    Func forward(Array x) override {
        Func y("y");
        Var c("c"), t("t"), s("s");
        y(c, t, s) = x(c, t, s) + table(c, t);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Var c("c"), t("t"), s("s");
        RDom k(0, x.extent(2), "k");
        d(x)(c, t, s) = dy(c, t, s);
        // Positions past the context have no gradient.
        Expr last = x.extent(1) - 1;
        d(table)(c, t) += select(t <= last, dy(c, min(t, last), k), cast(dy.type(), 0));
    }
};

/// y = table^T x: the output layer that shares its table with an embedding.
/// x: [width, ...rows] -> y: [vocab, ...rows].   Using the Output Embedding, Press and Wolf, 2017.
struct TiedHead : Layer {
    Embedding &source;
    Parameter &table = source.table;

    explicit TiedHead(Embedding &e) : Layer(e.path + ".transposed"), source(e) { share(table); }

    Shape shape(const Shape &x) const override {
        if (x[0] != source.width) fail("[{}] input has {} channels, expected {}", path, x[0], source.width);
        return x.with(0, source.vocab);
    }
    bool by_rows() const override { return true; }
    std::optional<ProductLayer> product() const override { return {{&table, nullptr, 1}}; }
    CastRow cast_row() const override { return CastRow::product; }
    double flops(const Shape &x) const override { return 2.0 * x.size() * source.vocab; }

    Func forward(Array x) override {
        Func y("y"), W = weight();
        Var v("v"), r("r");
        RDom i(0, source.width, "i");
        y(v, r) = cast(x.type(), 0);
        y(v, r) += W(v, i) * x(i, r);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func W = weight(), dW("dW");
        Var i("i"), v("v"), r("r");
        RDom n(0, source.vocab, "n"), m(0, dy.extent(1), "m");
        d(x)(i, r) += W(n, i) * dy(n, r);
        dW(v, i) += x(i, m) * dy(v, m);
        d(table)(i, v) = dW(v, i);
    }
    bool factored(const Parameter &) const override { return true; }
    Factors factors(const Parameter &, const Call &call, const Array &dy) override {
        return {{call.input(), source.width}, {dy, source.vocab}, dy.extent(1)};
    }

private:
    /// The table as the weight of a product.
    Func weight() const {
        Func W("W");
        Var v("v"), i("i");
        W(v, i) = table(i, v);
        return W;
    }
};

inline Tensor Embedding::transposed(const Tensor &x) { return x.graph().own(std::make_unique<TiedHead>(*this))(x); }

}  // namespace cryolite
