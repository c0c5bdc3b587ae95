#pragma once
// Self-attention, and its gradient, by blocks of queries and of keys.
//
// A block of queries `b` meets the blocks of keys between `first_keys(b)` and `last_keys(b)`: what a causal mask or a
// window hides from all of its queries is never computed. Within a block, queries come innermost, so that the softmax
// needs no sum across the lanes of a vector.
//
// In a format of 16 bits, the factors of all products are rounded where they are computed: queries, keys, values, the
// output's adjoint, exp(...) before the division by its sum, probabilities, and the adjoints of scores. Sums, scores
// and the softmax are fp32.

#include <Halide.h>

#include <cmath>
#include <optional>

#include "dsl/layers/rotary.h"
#include "dsl/numerics.h"

namespace cryolite {

/// What attends to what. Queries i and keys j are positions of one sequence.
struct AttentionShape {
    int heads, kv_heads, size, context;
    bool causal = true;           ///< j <= i
    int window = 0;               ///< |i - j| < window; 0: all
    Halide::Func documents = {};  ///< documents(t, s): i sees j where theirs are equal
    Halide::Func mask = {};       ///< mask(t, s): 0 where nobody sees this key
    std::optional<Rotary> rotary = {};
};

class AttentionAlgorithm {
public:
    static constexpr int block = 16;  ///< number of queries, or of keys, of a block

    /// qkv(c, t, s): channels q, k, v, each by head.
    AttentionAlgorithm(Halide::Func qkv, Halide::Type type, const AttentionShape &shape, const HalfFactors &halves = {})
        : qkv(qkv), type(type), shape(shape), halves(halves), size(shape.size), context(shape.context),
          width(shape.heads * size), group(shape.heads / shape.kv_heads), blocks((context + block - 1) / block),
          in_pairs(halves.pairs && size % 2 == 0), keys(0, block, 0, blocks, "keys"),
          key_terms(in_pairs ? terms("key_terms", block, {{0, blocks}}) : keys) {
        only_met(keys, keys.y, b);
        if (in_pairs) only_met(key_terms, key_terms[2], b);
        if (shape.rotary) angles();
        q = head_of("q", 0, shape.rotary.has_value()), k = head_of("k", 1, shape.rotary.has_value());
        v = head_of("v", 2, false);
        softmax();
    }

    /// y(c, t, s).
    Halide::Func forward() {
        Halide::Func y("y"), mixed("mixed");
        Halide::Func rows = paired("v_rows", v, 1), share_of_key = paired("weight_pairs", weight, 1);
        Halide::Expr key = met(outer(key_terms), b) * terms_of_block() + inner(key_terms);
        mixed(e, l, b, h, s) +=
            multiplied(term(share_of_key, key_terms, {l, key, b, h, s}), term(rows, key_terms, {e, key, kv(h), s}));
        Halide::Expr t0 = t % block, t1 = t / block, head = c / size;
        y(c, t, s) = mixed(c % size, t0, t1, head, s) * share(t0, t1, head, s);
        return y;
    }

    /// The adjoint of qkv, from that of y.
    Halide::Func backward(Halide::Func dy) {
        using namespace Halide;
        Func g("g"), dyT("dyT"), dP("dP"), rowdot("rowdot"), P("P"), PdS("PdS");
        RDom d = terms("d", size), r(0, block, 0, blocks, 0, blocks, "r");
        P(l, j, b, h, s) = weight(l, j, b, h, s) * share(l, b, h, s);
        const Expr adjoint = dy(h * size + e, within(j), s);
        g(e, j, h, s) = halves.stored.count(dy.name()) ? adjoint : factor(adjoint);
        g = halved("g_half", g);
        dyT(l, e, b, h, s) = g(e, row(b, l), h, s);
        Func dy_terms = paired("dyT_pairs", dyT, 1), v_terms = paired("v_pairs", v, 0);
        dP(l, j, b, h, s) +=
            multiplied(term(dy_terms, d, {l, inner(d), b, h, s}), term(v_terms, d, {inner(d), j, kv(h), s}));
        rowdot(l, b, h, s) += P(l, key(), b, h, s) * dP(l, key(), b, h, s);

        // P and dS, factors of the products that follow, for the pairs of blocks that meet.
        only_met(r, r.y, r.z);
        Expr key_row = met(r.y, r.z) * block + r.x;
        Expr p = P(l, key_row, r.z, h, s);
        Expr ds = half(factor(p * (dP(l, key_row, r.z, h, s) - rowdot(l, r.z, h, s)) * scale()));
        p = half(factor(p));
        PdS(l, j, i, h, s) = Tuple(undef(p.type()), undef(p.type()));
        PdS(l, r.x, pair(r.z, r.y), h, s) = Tuple(p, ds);
        Func p_factor("P_factor"), ds_factor("dS_factor");
        p_factor(l, j, i, h, s) = PdS(l, j, i, h, s)[0], ds_factor(l, j, i, h, s) = PdS(l, j, i, h, s)[1];

        Func dq("dq"), dk("dk"), dv("dv");
        RDom later = group == 1 ? terms("later", block, {{0, blocks}})  // queries that see a block of keys
                                : terms("later", block, {{0, blocks}, {0, group}});
        const Expr from = outer(later);
        if (shape.causal)
            later.where(from >= b);
        else if (shape.window)
            later.where(from >= first_keys(b));  // windows are symmetric
        if (shape.window) later.where(from <= last_queries(b));
        Expr seen_by = shape.causal ? max(from, b) : shape.window ? max(from, first_keys(b)) : from;
        if (shape.window) seen_by = min(seen_by, last_queries(b));
        Expr at = pair(seen_by, b), query = seen_by * terms_of_block() + inner(later),
             head = group == 1 ? Expr(h) : h * group + outer(later, 1);
        Expr block_of_keys = met(outer(key_terms), b), key_at = block_of_keys * terms_of_block() + inner(key_terms);
        Func ds_terms = paired("dS_pairs", ds_factor, 1), k_rows = paired("k_rows", k, 1);
        dq(e, l, b, h, s) += multiplied(term(ds_terms, key_terms, {l, inner(key_terms), pair(b, block_of_keys), h, s}),
                                        term(k_rows, key_terms, {e, key_at, kv(h), s}));
        Func ds_seen = paired("dS_seen", ds_factor, 0), q_rows = paired("q_rows", q, 1);
        dk(e, l, b, h, s) +=
            multiplied(term(ds_seen, later, {inner(later), l, at, head, s}), term(q_rows, later, {e, query, head, s}));
        Func p_seen = paired("P_seen", p_factor, 0), g_rows = paired("g_rows", g, 1);
        dv(e, l, b, h, s) +=
            multiplied(term(p_seen, later, {inner(later), l, at, head, s}), term(g_rows, later, {e, query, head, s}));
        return unpacked(dq, dk, dv);
    }

private:
    Halide::Func qkv;
    Halide::Type type;
    AttentionShape shape;
    HalfFactors halves;
    int size, context, width, group, blocks;  ///< group: heads of queries that share one of keys and values
    bool in_pairs;
    Halide::RDom keys, key_terms;  ///< the keys that a block of queries meets; the same as terms of a product
    Halide::Func weight, share, q, k, v, cosine, sine;
    // c, t, s: channel, position, sequence. h: head, e: channel in the head. b: block of queries, l: query in it.
    Halide::Var c{"c"}, t{"t"}, s{"s"}, h{"h"}, e{"e"}, b{"b"}, l{"l"}, i{"i"}, j{"j"}, of{"of"};

    Halide::Expr scale() const { return cast(type, Halide::Expr(1.0 / std::sqrt(double(size)))); }
    Halide::Expr kv(Halide::Expr head) const { return group == 1 ? head : head / group; }
    // In the last block, rows past the context are computed from the last row, and then dropped.
    Halide::Expr within(Halide::Expr row) const { return context % block ? min(row, context - 1) : row; }
    Halide::Expr row(Halide::Expr b, Halide::Expr l) const { return within(b * block + l); }
    /// Block `b` of queries meets the blocks of keys from first_keys(b) to last_keys(b). last_queries(b) is the last
    /// block of queries that meets block `b` of keys.
    Halide::Expr first_keys(Halide::Expr b) const { return max(b * block - (shape.window - 1), 0) / block; }
    Halide::Expr last_queries(Halide::Expr b) const {
        return min((b * block + block - 1 + shape.window - 1) / block, blocks - 1);
    }
    Halide::Expr last_keys(Halide::Expr b) const { return shape.causal ? b : last_queries(b); }
    /// Block `k` of keys, clamped to those that block `b` of queries meets, so that Halide knows its bounds.
    Halide::Expr met(Halide::Expr k, Halide::Expr b) const {
        if (shape.causal || shape.window) k = min(k, last_keys(b));
        return shape.window ? max(k, first_keys(b)) : k;
    }
    Halide::Expr key() const { return met(keys.y, b) * block + keys.x; }
    /// The number of the pair of block `b` of queries and block `k` of keys.
    Halide::Expr pair(Halide::Expr b, Halide::Expr k) const {
        return shape.causal ? b * (b + 1) / 2 + k : b * blocks + k;
    }

    /// Restricts `r` to the blocks of keys `k` that a block of queries meets.
    void only_met(Halide::RDom &r, const Halide::Expr &k, const Halide::Expr &queries) {
        if (shape.causal || shape.window) r.where(k <= last_keys(queries));
        if (shape.window) r.where(k >= first_keys(queries));
    }

    // Products: the terms of a sum come one by one, or in pairs of bf16: term `of`, 0 or 1, of a pair.

    /// A reduction over `count` terms, with the loops `outside` of it.
    Halide::RDom terms(const std::string &name, int count, const std::vector<std::pair<int, int>> &outside = {}) const {
        Halide::Region r = in_pairs ? Halide::Region{{0, 2}, {0, count / 2}} : Halide::Region{{0, count}};
        for (auto [first, extent] : outside) r.emplace_back(first, extent);
        return {r, name};
    }
    Halide::Expr inner(const Halide::RDom &r) const { return r[in_pairs]; }
    Halide::Expr outer(const Halide::RDom &r, int k = 0) const { return r[in_pairs + 1 + k]; }
    int terms_of_block() const { return in_pairs ? block / 2 : block; }
    /// `x` rounded to the format of factors, as a float32.
    Halide::Expr factor(const Halide::Expr &x) const {
        return halves.format == fp32 ? x : widened(rounded(x, storage_type(halves.format)));
    }
    /// In pairs: the bf16 of a float32 that was rounded to bf16, so that its lower half is zero.
    Halide::Expr half(const Halide::Expr &x) const {
        if (!in_pairs || x.type().is_bfloat()) return x;
        return Halide::reinterpret(Halide::BFloat(16), Halide::cast<uint16_t>(Halide::reinterpret<uint32_t>(x) >> 16));
    }
    Halide::Func halved(const std::string &name, const Halide::Func &f) const {
        if (!in_pairs) return f;
        Halide::Func g(name);
        const std::vector<Halide::Var> args = f.args();
        g(args) = half(f(std::vector<Halide::Expr>(args.begin(), args.end())));
        return g;
    }
    /// In pairs: g(of, .., k, ..) = f(.., 2 k + of, ..), where k is argument `along` of `f`.
    Halide::Func paired(const std::string &name, const Halide::Func &f, size_t along) const {
        if (!in_pairs) return f;
        Halide::Func g(name);
        std::vector<Halide::Var> args = f.args();
        std::vector<Halide::Expr> at(args.begin(), args.end());
        at[along] = 2 * args[along] + of;
        args.insert(args.begin(), of);
        g(args) = half(f(at));
        return g;
    }
    Halide::Expr term(const Halide::Func &f, const Halide::RDom &r, std::vector<Halide::Expr> at) const {
        if (in_pairs) at.insert(at.begin(), r[0]);
        return f(at);
    }
    Halide::Expr multiplied(const Halide::Expr &x, const Halide::Expr &y) const {
        return cast(type, x) * cast(type, y);
    }

    void angles() {
        cosine = Halide::Func("cosine"), sine = Halide::Func("sine");
        Halide::Func frequency("frequency");
        frequency(i) = cast(type, shape.rotary->frequency(i, size));
        Halide::Expr angle = cast(type, t) * frequency(i);
        cosine(i, t) = cos(angle), sine(i, t) = sin(angle);
    }
    /// Channel `e` of f at position `t`, its pair of channels rotated by the angle of `t`; `sign` -1: rotated back.
    template <typename F> Halide::Expr turned(const F &f, Halide::Expr e, Halide::Expr t, int sign) const {
        const int half = size / 2;
        Halide::Expr other = f((e + half) % size), at = e % half;
        return f(e) * cosine(at, t) + select(e < half, cast(type, -sign), cast(type, sign)) * other * sine(at, t);
    }
    /// f(channel of the head, position, head, sequence): part 0 (q), 1 (k) or 2 (v) of qkv.
    Halide::Func head_of(const char *name, int part, bool rotated) {
        const int first = part == 0 ? 0 : width + (part - 1) * shape.kv_heads * size;
        Halide::Func f(name);
        auto at = [&](Halide::Expr channel) { return qkv(first + h * size + channel, within(j), s); };
        const Halide::Expr value = rotated ? turned(at, e, within(j), 1) : at(e);
        f(e, j, h, s) = !rotated && halves.stored.count(qkv.name()) ? value : factor(value);
        return halved(std::string(name) + "_half", f);
    }

    /// Whether a key is hidden from a query; undefined: none is.
    Halide::Expr hidden(Halide::Expr key, Halide::Expr query) const {
        Halide::Expr no = shape.causal ? key > query : Halide::Expr();
        auto also = [&](Halide::Expr e) { no = no.defined() ? no || e : e; };
        if (shape.window) also(key <= query - shape.window);
        if (shape.window && !shape.causal) also(key >= query + shape.window);
        if (!shape.causal && context % block) also(key >= context);
        if (shape.documents.defined()) also(shape.documents(within(key), s) != shape.documents(query, s));
        if (shape.mask.defined()) also(shape.mask(within(key), s) == 0);
        return no;
    }

    /// weight = exp(q k / sqrt(size) - maximum) of a query and a key, and share = 1 / the sum of a query's weights.
    void softmax() {
        using namespace Halide;
        Func qT("qT"), S("S"), masked("masked"), top("top"), total("total");
        weight = Func("weight"), share = Func("share");
        const RDom d = terms("d", size);
        const bool whole = halves.format == fp32;  // else scores are scaled, not queries, which stay in 16 bits
        qT(l, e, b, h, s) = whole ? q(e, row(b, l), h, s) * scale() : q(e, row(b, l), h, s);
        Func q_terms = paired("qT_pairs", qT, 1), k_terms = paired("k_pairs", k, 0);
        S(l, j, b, h, s) +=
            multiplied(term(q_terms, d, {l, inner(d), b, h, s}), term(k_terms, d, {inner(d), j, kv(h), s}));
        const Expr no = hidden(j, row(b, l));
        const Expr score = S(l, j, b, h, s);
        // Not a sum with a large negative number: compilers may subtract the maximum before they add it. And not the
        // lowest number, as the difference has to be finite. The condition is a number, as Halide would make the bounds
        // of S depend on it otherwise.
        const Expr lowest = cast(type, -1e30f);
        masked(l, j, b, h, s) = no.defined() ? select(cast(type, no) > cast(type, 0.5f), lowest, score) : score;
        top(l, b, h, s) = type.min();
        top(l, b, h, s) = max(top(l, b, h, s), masked(l, key(), b, h, s));
        // The difference is scaled, so that the largest weight is 1, however large scores are. A scaled score would be
        // rounded in `top` but not here, in a fused multiply-add.
        const Expr below = masked(l, j, b, h, s) - top(l, b, h, s);
        weight(l, j, b, h, s) = factor(exp(whole ? below : below * scale()));
        total(l, b, h, s) += weight(l, key(), b, h, s);
        // Rows past the context, in the last block, take no part in the sums of the gradient.
        Expr real = context % block ? cast(type, b * block + l < context) : cast(type, 1);
        if (shape.mask.defined()) real = real * cast(type, top(l, b, h, s) > lowest);  // any key is seen
        share(l, b, h, s) = real / total(l, b, h, s);
    }

    /// The adjoint of qkv from those of its heads.
    Halide::Func unpacked(Halide::Func dq, Halide::Func dk, Halide::Func dv) {
        using namespace Halide;
        Func out("d_qkv");
        RDom to(0, size, 0, group + 2, 0, shape.kv_heads, "to");
        Expr t0 = t % block, t1 = t / block;
        auto turned_back = [&](Func f, Expr head) {
            auto at = [&](Expr channel) -> Expr { return f(channel, t0, t1, head, s); };
            return shape.rotary ? turned(at, to.x, t, -1) : at(to.x);
        };
        out(c, t, s) = undef(type);
        if (group == 1) {
            out(to.y * width + to.z * size + to.x, t, s) =
                select(to.y == 0, turned_back(dq, to.z), to.y == 1, turned_back(dk, to.z), dv(to.x, t0, t1, to.z, s));
            return out;
        }
        Expr head = to.z * group + min(to.y, group - 1), kv_width = shape.kv_heads * size;
        Expr first = select(to.y < group, head * size, width + (to.y - group) * kv_width + to.z * size);
        out(first + to.x, t, s) = select(to.y < group, turned_back(dq, head), to.y == group, turned_back(dk, to.z),
                                         dv(to.x, t0, t1, to.z, s));
        return out;
    }
};

}  // namespace cryolite
