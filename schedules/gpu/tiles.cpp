#include "schedules/gpu/tiles.h"

#include <functional>

namespace cryolite::gpu {

namespace {

using Reading = Internal::Call;

/// Calls `found` for what an expression reads in the end: images, and Funcs that are stored or that add something up.
class Ends : public Internal::IRVisitor {
public:
    Ends(const std::set<std::string> &stored, std::function<void(const Reading *)> found)
        : stored(stored), found(std::move(found)) {}

private:
    const std::set<std::string> &stored;
    const std::function<void(const Reading *)> found;

    using IRVisitor::visit;
    void visit(const Reading *op) override {
        if (op->call_type == Reading::Halide) {
            const Internal::Function f(op->func);
            if (!f.has_update_definition() && !stored.count(f.name())) {
                std::map<std::string, Expr> at;
                for (size_t d = 0; d < op->args.size(); d++) at[f.args()[d]] = op->args[d];
                return Internal::substitute(at, f.values().at(size_t(op->value_index))).accept(this);
            }
        }
        if (op->call_type == Reading::Halide || op->call_type == Reading::Image) found(op);
        IRVisitor::visit(op);
    }
};

bool is(const Expr &e, const std::string &variable) {
    const auto *v = e.as<Internal::Variable>();
    return v && v->name == variable;
}

/// Whether neighbours in the arrays that an expression reads differ in `k`, and not in `x`.
bool along(const Expr &e, const std::string &k, const std::string &x, const std::set<std::string> &stored) {
    bool by_k = false, by_x = false;
    Ends ends(stored, [&](const Reading *r) {
        by_k |= r->args.size() > 1 && is(r->args[0], k);
        by_x |= r->args.size() > 1 && is(r->args[0], x);
    });
    e.accept(&ends);
    return by_k && !by_x;
}

/// How `out` reads the anchor: 1, at its own indices; -1, with both exchanged; 0: in another way.
int order_of(Group &g, const std::set<std::string> &stored) {
    const std::string x = g.out.args()[0].name(), y = g.out.args()[1].name();
    int order = 0;
    bool same = true;
    Ends ends(stored, [&](const Reading *r) {
        if (r->name != g.anchor.name()) return;
        const int now = is(r->args[0], x) && is(r->args[1], y) ? 1 : is(r->args[0], y) && is(r->args[1], x) ? -1 : 0;
        same &= now != 0 && (order == 0 || order == now);
        order = now;
    });
    const Internal::Definition &d = g.in_place ? g.out.function().update(0) : g.out.function().definition();
    for (const Expr &e : d.values()) e.accept(&ends);
    return same ? order : 0;
}

class FindVariable : public Internal::IRVisitor {
public:
    explicit FindVariable(const std::string &name) : name(name) {}
    Expr found;

private:
    const std::string name;
    using IRVisitor::visit;
    void visit(const Internal::Variable *op) override {
        if (op->name == name) found = op;
    }
};

}  // namespace

std::optional<Products> products_of(Group &g, const std::set<std::string> &stored) {
    Func f = g.anchor;
    if (f.dimensions() != 2 || f.num_update_definitions() != 1 || f.outputs() != 1 || f.name() == g.out.name() ||
        g.out.dimensions() != 2 || !g.others.empty())
        return {};
    Internal::Definition &d = f.function().update(0);
    const auto *sum = d.values()[0].as<Internal::Add>();
    const auto *own = sum ? sum->a.as<Reading>() : nullptr;
    const auto *product = sum ? sum->b.as<Internal::Mul>() : nullptr;
    if (!own || own->name != f.name() || !product || d.schedule().rvars().size() != 1 ||
        !Internal::is_const_one(d.predicate()) || !at_own_indices(f.function(), d))
        return {};
    const std::string x = f.args()[0].name(), y = f.args()[1].name(), k = d.schedule().rvars()[0].var;
    Expr a = product->a, b = product->b;
    auto uses = [](const Expr &e, const std::string &v) { return Internal::expr_uses_var(e, v); };
    if (uses(a, y)) std::swap(a, b);
    if (uses(a, y) || uses(b, x) || !uses(a, x) || !uses(b, y) || !uses(a, k) || !uses(b, k)) return {};
    const int order = order_of(g, stored);
    if (order == 0 || !Internal::is_const_zero(d.schedule().rvars()[0].min)) return {};
    FindVariable term(k);
    a.accept(&term);
    Products p{.sum = f, .a = Func("a_tile"), .b = Func("b_tile")};
    p.swapped = order < 0, p.terms = reduction_extent(f);
    p.in_a.along_k = along(a, k, x, stored), p.in_b.along_k = along(b, k, y, stored);
    p.in_a.neighbours = p.in_a.along_k ? p.terms : g.extent(p.swapped ? 1 : 0);
    p.in_b.neighbours = p.in_b.along_k ? p.terms : g.extent(p.swapped ? 0 : 1);
    Var of("of"), at("at");
    p.a(of, at) = Internal::substitute({{x, of}, {k, at}}, a);
    p.b(of, at) = Internal::substitute({{y, of}, {k, at}}, b);
    d.values()[0] = sum->a + p.a(f.args()[0], term.found) * p.b(f.args()[1], term.found);
    return p;
}

namespace {

/// The threads of a block, and the sums of each, in fours: between two fours of a thread lie those of all the others.
/// So neighbouring threads read neighbouring fours, from different banks of shared memory.
void loops_of_tile(Halide::Stage s, const Var &x, const Var &y, const Tile &t, const std::vector<VarOrRVar> &terms,
                   const std::vector<VarOrRVar> &outside, TailStrategy edge = TailStrategy::RoundUp,
                   bool vectors = true) {
    Var xf("x_four"), yf("y_four"), xt("x_thread"), yt("y_thread"), xl("x_lane"), yl("y_lane");
    s.split(x, xf, xt, 4 * t.threads_across(), edge)
        .split(xt, xt, xl, 4, edge)
        .split(y, yf, yt, 4 * t.threads_down(), edge)
        .split(yt, yt, yl, 4, edge);
    std::vector<VarOrRVar> order = {xl, xf, yl, yf};
    order.insert(order.end(), terms.begin(), terms.end());
    order.insert(order.end(), {xt, yt});
    order.insert(order.end(), outside.begin(), outside.end());
    s.reorder(order).unroll(xf).unroll(yl).unroll(yf).gpu_threads(xt, yt);
    vectors ? s.vectorize(xl) : s.unroll(xl);
}

/// Copies a part of a factor f(x, k) to shared memory, with x innermost. The threads go along what is innermost in
/// memory, by fours.
void copy_factor(Func f, int tile, const Memory &m, const LoopLevel &level, const Tile &t) {
    Var x = f.args()[0], k = f.args()[1], four("four"), e("e"), turn("turn"), xt("x_thread"), yt("y_thread");
    f.compute_at(level).store_in(MemoryType::GPUShared).bound_extent(x, tile).bound_extent(k, t.depth);
    Var inner = m.along_k ? k : x, outer = m.along_k ? x : k;
    const bool fours = m.neighbours % 4 == 0 && (!m.along_k || t.depth % 4 == 0);
    // Rows of shared memory are four longer, so that the elements that a warp stores are in different banks.
    if (m.along_k) f.align_storage(x, tile + 4);
    f.reorder(inner, outer);
    std::vector<VarOrRVar> order = {turn, xt, yt};
    if (fours) {
        f.split(inner, inner, four, 4, TailStrategy::RoundUp).vectorize(four);
        order.insert(order.begin(), four);
    }
    const int copies = tile * t.depth / (fours ? 4 : 1);
    const TailStrategy edge = copies % t.threads() ? TailStrategy::GuardWithIf : TailStrategy::RoundUp;
    f.fuse(inner, outer, e)
        .split(e, turn, e, t.threads(), edge)
        .split(e, yt, xt, t.threads_across(), TailStrategy::RoundUp)
        .reorder(order)
        .unroll(turn)
        .gpu_threads(xt, yt);
}

}  // namespace

void in_tiles(const Products &p, Func sum, Func into, Halide::Stage s, const Tile &t, bool whole, bool in_place) {
    Var x = into.args()[0], y = into.args()[1], xb("x_block"), yb("y_block");
    const TailStrategy inside = in_place ? TailStrategy::GuardWithIf : TailStrategy::RoundUp;
    const TailStrategy edge = whole ? inside : TailStrategy::ShiftInwards;
    s.split(x, xb, x, t.columns, edge).split(y, yb, y, t.rows, edge);
    std::vector<VarOrRVar> outside = {xb, yb};
    if (into.dimensions() > 2) outside.emplace_back(into.args()[2]);
    loops_of_tile(s, x, y, t, {}, outside, inside, !in_place);
    if (into.dimensions() > 2)
        s.gpu_blocks(xb, yb, into.args()[2]);
    else
        s.gpu_blocks(xb, yb);
    Var sx = sum.args()[0], sy = sum.args()[1];
    if (p.swapped) std::swap(sx, sy), sum.reorder_storage(sx, sy);
    sum.compute_at(into, xb).store_in(MemoryType::Register).bound_extent(sx, t.columns).bound_extent(sy, t.rows);
    std::vector<VarOrRVar> part;
    if (sum.dimensions() > 2) part.emplace_back(sum.args()[2]);
    loops_of_tile(sum, sx, sy, t, {}, part);
    RVar k = sum.rvars()[0], ko("k_chunk");
    sum.update().split(k, ko, k, t.depth);
    part.insert(part.begin(), ko);
    loops_of_tile(sum.update(), sx, sy, t, {k}, part, TailStrategy::GuardWithIf);
    sum.update().unroll(k);
    const LoopLevel chunk(sum, ko);
    copy_factor(p.a, p.swapped ? t.rows : t.columns, p.in_a, chunk, t);
    copy_factor(p.b, p.swapped ? t.columns : t.rows, p.in_b, chunk, t);
}

}  // namespace cryolite::gpu
