#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// Causal self-attention: y = softmax(q k^T / sqrt(D) + mask) v for every head, D = width / heads.
/// qkv: [3 width, context, batch], channels q, k, v, each by head -> [width, context, batch].
/// Attention Is All You Need, Vaswani et al., 2017.
struct CausalAttention : Layer {
    const int heads;

    CausalAttention(std::string path, int heads) : Layer(std::move(path)), heads(heads) {
        if (heads < 1) fail("[{}] has {} heads, expected at least 1", this->path, heads);
    }
    int rank() const override { return 3; }
    Shape shape(const Shape &x) const override {
        if (x[0] % (3 * heads))
            fail("[{}] width {} is not divisible by {} heads", path, x[0] / 3, heads);
        return x.with(0, x[0] / 3);
    }
    /// Two products, of which the causal half is counted.
    double flops(const Shape &x) const override { return 2.0 * x.size() / 3 * x[1]; }
    double gradient_flops(const Shape &x, bool of_input) const override {
        return of_input ? 2 * flops(x) : 0;
    }

    Func forward(Array qkv) override {
        Func y("y"), sum("sum");
        probabilities(qkv);
        RDom k(0, T, "k");
        sum(e, i, h, s) += P(k, i, h, s) * qkv(2 * width + h * D + e, k, s);
        y(c, i, s) = sum(c % D, i, c / D, s);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array qkv = call.input();
        probabilities(qkv);
        Func dP("dP"), dS("dS"), rowdot("rowdot"), dq("dq"), dk("dk"), dv("dv");
        RDom m(0, D, "m"), k(0, T, "k"), l(0, T, "l"), n(0, T, "n"), o(0, T, "o");
        dP(j, i, h, s) += dy(h * D + m, i, s) * qkv(2 * width + h * D + m, j, s);
        rowdot(i, h, s) += P(k, i, h, s) * dP(k, i, h, s);
        dS(j, i, h, s) = P(j, i, h, s) * (dP(j, i, h, s) - rowdot(i, h, s)) * scale;
        dq(e, i, h, s) += dS(l, i, h, s) * qkv(width + h * D + e, l, s);
        dk(e, j, h, s) += dS(j, n, h, s) * qkv(h * D + e, n, s);
        dv(e, j, h, s) += P(j, o, h, s) * dy(h * D + e, o, s);
        Expr e0 = c % D, h0 = (c % width) / D;
        d(call.input())(c, i, s) = select(c < width, dq(e0, i, h0, s), c < 2 * width, dk(e0, i, h0, s),
                                          dv(e0, i, h0, s));
    }

private:
    int width, D, T;
    Expr scale;
    Func P;
    Var c{"c"}, e{"e"}, i{"i"}, j{"j"}, h{"h"}, s{"s"};

    void probabilities(const Array &qkv) {
        width = qkv.extent(0) / 3, D = width / heads, T = qkv.extent(1);
        scale = cast(qkv.type(), Expr(1.0 / std::sqrt(double(D))));
        Func S("S"), masked("masked"), top("top"), expd("expd"), total("total");
        RDom m(0, D, "m"), k(0, T, "k"), l(0, T, "l");
        S(j, i, h, s) += qkv(h * D + m, i, s) * qkv(width + h * D + m, j, s);
        masked(j, i, h, s) = S(j, i, h, s) * scale + cast(qkv.type(), j > i) * cast(qkv.type(), -1e30f);
        top(i, h, s) = qkv.type().min();
        top(i, h, s) = max(top(i, h, s), masked(k, i, h, s));
        expd(j, i, h, s) = exp(masked(j, i, h, s) - top(i, h, s));
        total(i, h, s) += expd(l, i, h, s);
        P = Func("P");
        P(j, i, h, s) = expd(j, i, h, s) / total(i, h, s);
    }
};

}  // namespace cryolite
