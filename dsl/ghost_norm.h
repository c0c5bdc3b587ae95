#pragma once
// The norm of a gradient that is never computed: |sum_m a_m b_m'|^2 = sum_mn (a_m . a_n) (b_m . b_n), over rows m, n.
// Efficient Per-Example Gradient Computations, Goodfellow, 2015: there for one example, here for a batch.

#include "dsl/layer.h"

namespace cryolite {

/// The squared norm of a sum of gradients is a sum over pairs (p, q) of these gradients. This is the term of one pair:
/// norm(0) = sum_mn (p.first_m . q.first_n) (p.second_m . q.second_n), over the rows m of p and n of q, and twice that
/// where p and q are not the same gradient. "partial"(b) is the sum over block b of the rows of p.
class GhostNorm {
public:
    static constexpr int block = 8;

    GhostNorm(const Factors &p, const Factors &q, bool same) : rows(p.rows) {
        Func first = inner_product("first", p.first, q.first), second = inner_product("second", p.second, q.second);
        Func partial("partial");
        RDom pair(0, block, 0, q.rows, "pair"), each(0, (rows + block - 1) / block, "each");
        Expr row = b * block + pair.x, n = pair.y;
        if (same) pair.where(pair.y < (b + 1) * block);  // the other half is the same by symmetry
        Expr zero = cast<double>(0), one = cast<double>(1), two = cast<double>(2);
        Expr times = same ? select(n < row, two, n == row, one, zero) : two;
        if (rows % block) times = select(row < rows, times, zero);
        partial(b) += times * cast<double>(first(n, row) * second(n, row));
        norm = Func("norm");
        norm(u) += partial(each);
    }

    Func norm;

    /// `row`, kept within the array: tiles may reach past the last row, and what they compute there is not used.
    static Expr within(const Expr &row, int rows) { return rows % block ? min(row, rows - 1) : row; }

private:
    const int rows;
    Var m{"m"}, n{"n"}, b{"b"}, u{"u"};

    /// f(n, m) = p_m . q_n.
    Func inner_product(const std::string &name, const Factor &p, const Factor &q) {
        Func f(name);
        Expr of_p = within(m, rows), of_q = within(n, rows);
        if (p.one_hot && q.one_hot) {
            f(n, m) = cast<float>(p.f(of_p) == q.f(of_q));
        } else if (p.one_hot) {
            f(n, m) = q.f(p.f(of_p), of_q);
        } else if (q.one_hot) {
            f(n, m) = p.f(q.f(of_q), of_p);
        } else {
            RDom k(0, p.extent, "k");
            f(n, m) += p.f(k, of_p) * q.f(k, of_q);
        }
        return f;
    }
};

/// bound(0) = sum_m |a_m| |b_m|. By Cauchy-Schwarz no element of the gradient sum_m a_m b_m', and no partial sum of
/// one, is larger: where the bound is finite as a float, so are they. It reads each factor once, and multiplies no row
/// with another row.
class GhostBound {
public:
    explicit GhostBound(const Factors &p) {
        constexpr int block = GhostNorm::block;
        RDom in_block(0, block, "in_block"), each(0, (p.rows + block - 1) / block, "each");
        Expr row = b * block + in_block, at = GhostNorm::within(row, p.rows);
        Expr both = square("first", p.first, at) * square("second", p.second, at);
        Func partial("partial");
        partial(b) += p.rows % block ? select(row < p.rows, sqrt(both), cast<double>(0)) : sqrt(both);
        bound = Func("bound");
        bound(u) += partial(each);
    }

    Func bound;

private:
    Var m{"m"}, b{"b"}, u{"u"};

    /// |p_row|^2
    Expr square(const std::string &name, const Factor &p, const Expr &row) {
        if (p.one_hot) return cast<double>(1);
        Func f(name);
        RDom k(0, p.extent, "k");
        f(m) += p.f(k, m) * p.f(k, m);
        return cast<double>(f(row));
    }
};

}  // namespace cryolite
