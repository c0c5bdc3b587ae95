#include "schedules/cpu/pairs.h"

#include "schedules/cpu/transpose_words.h"
#include "schedules/views.h"

namespace cryolite::cpu {

namespace {

/// Whether `f` is a view of a stored array.
bool is_stored(const Func &f) {
    Func last = behind_views(f);
    if (last.has_update_definition() || last.outputs() != 1) return false;
    const auto *call = last.value().as<Internal::Call>();
    return call && call->call_type == Internal::Call::Image;
}

}  // namespace

void across_pairs(Stage s, const VarOrRVar &lane, const RVar &p, const Machine &m) {
    if (m.dot_products)
        s.atomic().vectorize(lane).vectorize(p);
    else
        s.vectorize(lane).unroll(p);
}

bool in_pairs(const Group &g) { return g.func("a_pairs").defined(); }

bool pairs_are_bf16(const Group &g) { return in_pairs(g) && g.func("a_pairs").type().is_bfloat(); }

std::vector<Func> parts(const Group &g, const std::string &factor) {
    std::vector<Func> found;
    for (const char *part : {"", "_middle", "_low"})
        if (Func f = g.func(factor + part); f.defined()) found.push_back(f);
    return found;
}

bool is_split(const Group &g) { return g.func("a_pairs_low").defined(); }

bool stored_in_pairs(const Group &g) { return in_pairs(g) && is_stored(g.func("a_pairs")); }

bool stored_rows_in_pairs(const Group &g) {
    using namespace Internal;
    const Func b = g.func("b_pairs");
    if (g.form == Form::d_parameter || !is_stored(b) || terms(g) % 2) return false;
    Expr e = b.value();
    while (const auto *call = e.as<Call>()) {
        if (call->call_type != Call::Halide) break;
        e = written_out(*call, Func(Function(call->func)));
    }
    const auto *element = e.as<Call>();
    if (!element || element->call_type != Call::Image || element->args.size() != 2) return false;
    const Var p = b.args()[0], y = b.args()[1], k = b.args()[2];
    return can_prove(element->args[0] == 2 * k + p) && can_prove(element->args[1] == y);
}

int terms(const Group &g) { return in_pairs(g) ? 2 * reduction_extent(g.anchor, 1) : reduction_extent(g.anchor); }

void accumulate_pairs(Func f, const Tile &t, TailStrategy edge, const Machine &m) {
    Var x = f.args()[0], y = f.args()[1], lane("lane");
    RVar p = f.rvars()[0], k = f.rvars()[1];
    across_lanes(f, x, t.lanes, edge);
    f.unroll(y);
    Stage s = f.update();
    s.split(x, x, lane, t.lanes, edge).reorder({p, lane, x, y, k}).unroll(x).unroll(y);
    across_pairs(s, lane, p, m);
}

void accumulate_pairs_in_chunks(Func f, const Tile &t, int size, const RVar &ko, const Machine &m,
                                const std::optional<Var> &panel) {
    Var x = f.args()[0], y = f.args()[1], yt("yt"), lane("lane");
    RVar p = f.rvars()[0], k = f.rvars()[1];
    f.vectorize(x, t.lanes);
    Stage s = f.update();
    s.split(k, ko, k, ceil_div(size, 2), TailStrategy::GuardWithIf).split(y, yt, y, t.rows, TailStrategy::GuardWithIf);
    if (panel) s.split(x, *panel, x, t.columns, TailStrategy::GuardWithIf);
    s.split(x, x, lane, t.lanes);
    std::vector<VarOrRVar> loops = {p, lane, x, y, k, yt};
    if (panel) loops.push_back(*panel);
    loops.push_back(ko);
    s.reorder(loops).unroll(x).unroll(y);
    across_pairs(s, lane, p, m);
}

void accumulate_pairs_by_lane(Func s, const Machine &m) {
    Var u = s.args()[0], v = s.args()[1], q = s.args()[2];
    RVar p = s.rvars()[0], part = s.rvars()[1], panel = s.rvars()[2];
    Stage sums = s.update();
    sums.reorder({p, q, u, v, part, panel}).unroll(u).unroll(v).unroll(part);
    across_pairs(sums, q, p, m);
}

void pack_rows(Group &g, const Machine &m, const std::optional<LoopLevel> &level) {
    Func b = g.func("b_pairs");
    if (m.matrix_tiles ? stored_rows_in_pairs(g) : is_stored(b) && terms(g) % 2 == 0) return;
    Var p = b.args()[0], y = b.args()[1], k = b.args()[2];
    const int lanes = lanes_within(reduction_extent(g.anchor, 1), m);
    b.reorder_storage(p, k, y).reorder(p, k, y).vectorize(k, lanes).unroll(p);
    if (level)
        b.compute_at(*level);
    else
        b.compute_root().parallel(y);
}

void turn_pairs(Group &g, const Machine &m) {
    Func b = g.func("b_pairs");
    Var p = b.args()[0], y = b.args()[1], k = b.args()[2];
    b.compute_root().reorder_storage(p, y, k).reorder(p, y, k).vectorize(y, m.vector).unroll(p).parallel(k, 16);
}

void turn_terms(Group &g, const Machine &m) {
    const int columns = g.extent(1), pairs = reduction_extent(g.anchor, 1), lanes = lanes_within(pairs, m);
    int block = 64;  // a multiple of the words that `transpose_words` exchanges
    while (block > columns) block /= 2;
    for (Func b : parts(g, "b_pairs")) {
        Func turned = b.in(g.anchor);
        Var p = turned.args()[0], y = turned.args()[1], k = turned.args()[2], yb("yb"), kb("kb");
        turned.compute_root()
            .reorder_storage(p, k, y)
            .split(y, yb, y, block, TailStrategy::ShiftInwards)
            .split(k, kb, k, lanes, TailStrategy::ShiftInwards)
            .reorder({p, k, y, kb, yb})
            .vectorize(k)
            .unroll(p)
            .parallel(yb);
        turned.align_storage(k, odd_lines(pairs, pairs_of_line));
        b.compute_at(turned, kb).reorder(b.args()[0], b.args()[1], b.args()[2]).unroll(b.args()[0]);
        b.vectorize(b.args()[1], std::min(block, m.vector));
    }
    g.passes["transpose_words 1"] = transpose_words;
}

void pack_pairs(Group &g, const LoopLevel &level, const Tile &t, const Machine &m,
                const std::optional<LoopLevel> &rows) {
    Func a = g.func("a_pairs"), b = g.func("b_pairs");
    Var p = a.args()[0], x = a.args()[1], k = a.args()[2];
    // With panels a vector may reach past the last column, as the last panel is stored to its end.
    const TailStrategy tail = g.panel ? TailStrategy::RoundUp : TailStrategy::ShiftInwards;
    // The gradient of a row-major table may be stored transposed, the rows of the product as columns: either factor may
    // be the narrower one.
    const bool turned = g.form == Form::d_parameter && !g.panel;
    const int of_either = lanes_within(std::min(g.extent(0), g.extent(1)), m);
    const int lanes = turned ? std::min(t.lanes, of_either) : t.lanes;
    if (!pairs_are_bf16(g)) a.reorder_storage(x, p, k);  // whole vectors of one term
    for (Func part : parts(g, "a_pairs")) {
        Var p = part.args()[0], x = part.args()[1], k = part.args()[2];
        part.compute_at(level).reorder(p, x, k).vectorize(x, lanes, tail).unroll(p);
    }
    Var q = b.args()[0], y = b.args()[1], l = b.args()[2];
    if (g.form != Form::d_parameter) return pack_rows(g, m, rows);
    if (m.matrix_tiles) return turn_terms(g, m);
    // Pairs of rows are never stored so, and are packed. A tile reads a few columns of all rows: with an even number of
    // cache lines from row to row, these would share few sets of a cache.
    const int of_line = 64 / (2 * b.type().bytes()), columns = g.extent(1);
    if (!turned) b.align_storage(y, odd_lines(columns, of_line));
    b.compute_root().reorder(q, y, l).vectorize(y, turned ? of_either : lanes_within(columns, m)).unroll(q).parallel(l);
}

void pack_chunks(Group &g, const LoopLevel &rows, const LoopLevel &columns, int inputs, const Tile &t) {
    Func a = g.func("a_pairs"), b = g.func("b_pairs");
    auto copy = [](Func f, const LoopLevel &level, int lanes, TailStrategy tail) {
        Var p = f.args()[0], x = f.args()[1], k = f.args()[2];
        f.reorder_storage(x, p, k).compute_at(level).reorder(p, x, k).vectorize(x, lanes, tail).unroll(p);
    };
    copy(b, rows, inputs, TailStrategy::ShiftInwards);
    copy(a, columns, t.lanes, TailStrategy::RoundUp);
}

}  // namespace cryolite::cpu
