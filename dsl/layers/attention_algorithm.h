#pragma once
// Causal self-attention, and its gradient, by blocks of queries and of keys.
//
// A block of queries `b` meets the blocks of keys 0 ... b: the others are never computed. Within a
// block, queries come innermost, so that the softmax needs no sum across the lanes of a vector.

#include <Halide.h>

#include <cmath>

namespace cryolite {

class CausalAttentionAlgorithm {
public:
    static constexpr int block = 16;  ///< queries, or keys, of a block

    /// qkv(c, t, s): channels q, k, v, each by head.
    CausalAttentionAlgorithm(Halide::Func qkv, Halide::Type type, int width, int heads, int context)
        : qkv(qkv), type(type), width(width), heads(heads), size(width / heads), context(context),
          blocks((context + block - 1) / block), keys(0, block, 0, blocks, "keys") {
        keys.where(keys.y <= b);
        q = head_of("q", 0), k = head_of("k", 1), v = head_of("v", 2);
        softmax();
    }

    /// y(c, t, s).
    Halide::Func forward() {
        Halide::Func y("y"), mixed("mixed");
        mixed(e, l, b, h, s) += weight(l, key(), b, h, s) * v(e, key(), h, s);
        Halide::Expr t0 = t % block, t1 = t / block, head = c / size;
        y(c, t, s) = mixed(c % size, t0, t1, head, s) * share(t0, t1, head, s);
        return y;
    }

    /// The adjoint of qkv, from that of y.
    Halide::Func backward(Halide::Func dy) {
        using namespace Halide;
        Func g("g"), dyT("dyT"), dP("dP"), rowdot("rowdot"), P("P"), PdS("PdS");
        RDom d(0, size, "d"), r(0, block, 0, blocks, 0, blocks, "r");
        P(l, j, b, h, s) = weight(l, j, b, h, s) * share(l, b, h, s);
        g(e, j, h, s) = dy(h * size + e, within(j), s);
        dyT(l, e, b, h, s) = g(e, row(b, l), h, s);
        dP(l, j, b, h, s) += dyT(l, d, b, h, s) * v(d, j, h, s);
        rowdot(l, b, h, s) += P(l, key(), b, h, s) * dP(l, key(), b, h, s);

        // Both factors of what follows, for the lower triangle of blocks.
        r.where(r.y <= r.z);
        Expr key_row = min(r.y, r.z) * block + r.x;
        Expr p = P(l, key_row, r.z, h, s);
        Expr ds = p * (dP(l, key_row, r.z, h, s) - rowdot(l, r.z, h, s)) * scale();
        PdS(l, j, i, h, s) = Tuple(undef(type), undef(type));
        PdS(l, r.x, triangle(r.z, r.y), h, s) = Tuple(p, ds);

        Func dq("dq"), dk("dk"), dv("dv"), out("d_qkv");
        RDom later(0, block, 0, blocks, "later");  // queries that see a block of keys
        later.where(later.y >= b);
        Expr at = triangle(max(later.y, b), b), query_row = row(max(later.y, b), later.x);
        dq(e, l, b, h, s) += PdS(l, keys.x, triangle(b, min(keys.y, b)), h, s)[1] *
                             k(e, row(min(keys.y, b), keys.x), h, s);
        dk(e, l, b, h, s) += PdS(later.x, l, at, h, s)[1] * q(e, query_row, h, s);
        dv(e, l, b, h, s) += PdS(later.x, l, at, h, s)[0] * g(e, query_row, h, s);
        RDom to(0, size, 0, 3, 0, heads, "to");
        Expr t0 = t % block, t1 = t / block;
        out(c, t, s) = undef(type);
        out(to.y * width + to.z * size + to.x, t, s) =
            select(to.y == 0, dq(to.x, t0, t1, to.z, s),  //
                   to.y == 1, dk(to.x, t0, t1, to.z, s), dv(to.x, t0, t1, to.z, s));
        return out;
    }

private:
    Halide::Func qkv;
    Halide::Type type;
    int width, heads, size, context, blocks;
    Halide::RDom keys;
    Halide::Func weight, share, q, k, v;
    // c, t, s: channel, position, sequence. h: head, e: channel in it. b, l: block of queries,
    // query in it.
    Halide::Var c{"c"}, t{"t"}, s{"s"}, h{"h"}, e{"e"}, b{"b"}, l{"l"}, i{"i"}, j{"j"};

    Halide::Expr scale() const { return cast(type, Halide::Expr(1.0 / std::sqrt(double(size)))); }
    // Rows past the context are computed with, in the last block, and then dropped.
    Halide::Expr within(Halide::Expr row) const {
        return context % block ? min(row, context - 1) : row;
    }
    Halide::Expr row(Halide::Expr b, Halide::Expr l) const { return within(b * block + l); }
    Halide::Expr key() const { return min(keys.y, b) * block + keys.x; }
    static Halide::Expr triangle(Halide::Expr b, Halide::Expr k) { return b * (b + 1) / 2 + k; }
    /// (channel in the head, position, head, sequence) of a third of qkv.
    Halide::Func head_of(const char *name, int part) {
        Halide::Func f(name);
        f(e, j, h, s) = qkv(part * width + h * size + e, within(j), s);
        return f;
    }

    /// weight(query, key) = exp(q k / sqrt(size) - maximum), and 1 / its sum over the keys.
    void softmax() {
        using namespace Halide;
        Func qT("qT"), S("S"), masked("masked"), top("top"), total("total");
        weight = Func("weight"), share = Func("share");
        RDom d(0, size, "d");
        qT(l, e, b, h, s) = q(e, row(b, l), h, s) * scale();
        S(l, j, b, h, s) += qT(l, d, b, h, s) * k(d, j, h, s);
        masked(l, j, b, h, s) = S(l, j, b, h, s) + cast(type, j > row(b, l)) * cast(type, -1e30f);
        top(l, b, h, s) = type.min();
        top(l, b, h, s) = max(top(l, b, h, s), masked(l, key(), b, h, s));
        weight(l, j, b, h, s) = exp(masked(l, j, b, h, s) - top(l, b, h, s));
        total(l, b, h, s) += weight(l, key(), b, h, s);
        // Rows past the context, in the last block, take no part in the sums of the gradient.
        Expr real = context % block ? cast(type, b * block + l < context) : cast(type, 1);
        share(l, b, h, s) = real / total(l, b, h, s);
    }
};

}  // namespace cryolite
