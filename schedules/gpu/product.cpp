// Matrix products: Y = X W + b, dX = dY W', dW = X' dY, in tiles (tiles.h). The epilogue is applied to a thread's sums
// before they are stored. Where there are few sums, their terms are shared by several blocks, and one more launch adds
// the parts, in their order.

#include <algorithm>

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"
#include "schedules/gpu/registers.h"
#include "schedules/gpu/tiles.h"

namespace cryolite::gpu {

namespace {

/// Loops that need no shared memory: a thread has up to 4 x 4 sums, and a block has 16 x 16 threads. These tiles divide
/// the extents, so that no thread reaches past them.
void small_tiles(Group &g, Placed &placed) {
    constexpr int threads = 16;
    Stage s = work_of(g);
    Var x = g.out.args()[0], y = g.out.args()[1], xt("xt"), yt("yt"), xb("xb"), yb("yb");
    s.split(x, xt, x, dividing(g.extent(0), 4), TailStrategy::RoundUp)
        .split(y, yt, y, dividing(g.extent(1), 4), TailStrategy::RoundUp)
        .split(xt, xb, xt, threads, TailStrategy::GuardWithIf)
        .split(yt, yb, yt, threads, TailStrategy::GuardWithIf)
        .reorder({x, y, xt, yt, xb, yb})
        .unroll(x)
        .unroll(y)
        .gpu_threads(xt, yt)
        .gpu_blocks(xb, yb);
    Func sum = g.anchor;
    add_in_parts(sum, int64_t(g.extent(0)) * g.extent(1), placed);
    Var a = sum.args()[0], b = sum.args()[1];
    sum.compute_at(g.out, xt).unroll(a).unroll(b);
    std::vector<VarOrRVar> order = {a, b};
    for (const VarOrRVar &r : reductions_of(sum.update())) order.push_back(r);
    sum.update().reorder(order).unroll(a).unroll(b);
    finish(g, xb, placed);
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

constexpr int least_terms = 64;  // of a part

/// The terms that shared memory holds: 16, or what comes near and divides all of them; 0: nothing does.
int depth_for(int terms) {
    for (int d : {16, 8, 12, 20, 24, 28, 32})
        if (terms % d == 0) return d;
    for (int d = 32; d >= 8; d--)
        if (terms % d == 0) return d;
    return 0;
}

struct Way {
    Tile tile;
    int parts;
};

/// The time of a product in multiply-adds of one multiprocessor, roughly. All GPUs are taken for an H100, which has
/// 132, so that the order of additions does not depend on the GPU.
double cost(const Way &w, int columns, int rows, int terms) {
    constexpr int processors = 132, least_threads = 256;
    const Tile &t = w.tile;
    const int blocks = ceil_div(columns, t.columns) * ceil_div(rows, t.rows) * w.parts;
    const int each = ceil_div(blocks, processors);  // blocks of the busiest one
    // A thread of 8 x 8 sums loads one number for four multiply-adds; one of 4 x 4, for two.
    const double loads = double(t.thread_columns + t.thread_rows) / (t.thread_columns * t.thread_rows);
    // Few threads do not hide how long memory takes.
    const double wait = std::max(1.0, double(least_threads) / (each * t.threads()));
    // What adds the parts is a launch of its own. It takes as long as some hundred thousand multiply-adds. Writing and
    // reading a sum of a part takes as long as 0.6 of them.
    constexpr double launch = 3e5, part = 0.6;
    const double parts = w.parts > 1 ? launch + part * columns * rows * w.parts : 0;
    return double(each) * t.columns * t.rows * terms / w.parts * (1 + 2 * loads) * wait + parts;
}

std::optional<Way> best_way(Group &g, int terms) {
    const int columns = g.extent(0), rows = g.extent(1), depth = depth_for(terms);
    if (depth == 0) return {};
    std::optional<Way> best;
    double least = 0;
    for (const auto &[c, r, tc, tr] : {std::array{128, 128, 8, 8},
                                       {128, 64, 8, 8},
                                       {64, 128, 8, 8},
                                       {64, 64, 8, 4},
                                       {64, 32, 4, 4},
                                       {32, 64, 4, 4},
                                       {32, 32, 4, 4}})
        for (int parts = 1; parts == 1 || terms / parts >= least_terms; parts++) {
            if (columns < c || rows < r || terms % (parts * depth)) continue;
            const Way w{{c, r, tc, tr, depth}, parts};
            const double now = cost(w, columns, rows, terms);
            if (!best || now < least) best = w, least = now;
        }
    return best;
}

/// The way `usual`, of which lines may set some numbers.
Way tuned(Group &g, const Way &usual, int terms) {
    auto fitting = [](int extent) {
        std::vector<int> widths;
        for (int w : {32, 64, 128})
            if (w <= extent) widths.push_back(w);
        return widths;
    };
    Way w = usual;
    Tile &t = w.tile;
    t.columns = g.tunables("columns", t.columns, fitting(g.extent(0)));
    t.rows = g.tunables("rows", t.rows, fitting(g.extent(1)));
    t.thread_columns = g.tunables("thread_columns", t.thread_columns, {4, 8});
    t.thread_rows = g.tunables("thread_rows", t.thread_rows, {4, 8});
    std::vector<int> depths, parts;
    for (int d : {8, 16, 32})
        if (terms % (w.parts * d) == 0) depths.push_back(d);  // so that it changes no order of additions
    t.depth = g.tunables("depth", t.depth, depths);
    for (int n = 1; n <= terms / least_terms; n++)
        if (terms % (n * t.depth) == 0) parts.push_back(n);
    if (!std::ranges::count(parts, w.parts)) w.parts = 1;
    w.parts = g.tunables("parts", w.parts, parts, Sums::other_order);
    return w;
}

/// Adds the parts of sums, and stores what the epilogue makes of them: a thread, four neighbours or one.
void add_parts(Group &g, Func sum, bool fours, Placed &placed) {
    const Threads loops = element_each(work_of(g), fours ? g.extent(0) : 0);
    sum.compute_at(g.out, loops.thread);
    if (fours) {
        const Var x = sum.args()[0];
        sum.vectorize(x, 4).update().reorder(x, sum.rvars()[0]).vectorize(x, 4);
    }
    finish(g, loops.block, placed);
}

}  // namespace

void product(Group &g, const Machine &m) {
    if (g.anchor.dimensions() != 2 || g.extents.size() != 2) return sum_in_thread(g, m);
    Placed placed = {g.anchor.name()};
    // The prologue is computed once, not for every tile.
    if (!g.prologue.empty()) {
        Func x = g.prologue.back().compute_root();
        placed.insert(x.name());
        row_each(x, x, g.funcs(), placed, m);
    }
    std::set<std::string> stored = placed;
    const auto usual = best_way(g, reduction_extent(g.anchor));
    const auto p = usual ? products_of(g, stored) : std::nullopt;
    if (!p) return small_tiles(g, placed);
    const Way way = tuned(g, *usual, p->terms);
    const bool whole = g.extent(0) % way.tile.columns == 0 && g.extent(1) % way.tile.rows == 0;
    g.passes["own_elements 1"] = own_elements;
    Func sum = p->sum;
    placed.insert({p->a.name(), p->b.name()});
    const bool apart = way.parts > 1 || (g.in_place && !whole);
    if (!apart) {
        in_tiles(*p, sum, g.out, work_of(g), way.tile, whole, g.in_place);
        return finish(g, Var("x_block"), placed);
    }
    Products of_sum = *p;
    Tile tile = way.tile;
    if (of_sum.swapped) std::swap(tile.columns, tile.rows), std::swap(tile.thread_columns, tile.thread_rows);
    of_sum.swapped = false;
    if (way.parts > 1) {
        RVar k = sum.rvars()[0], of_part("of_part");
        Var part("part");
        sum.update().split(k, of_part, k, p->terms / way.parts);
        sum = sum.update().rfactor(of_part, part);
    }
    Func stored_sums = sum.in();
    stored_sums.compute_root();
    placed.insert({sum.name(), stored_sums.name()});
    // An update in place may have no tails that are rounded up.
    const bool fours = takes_fours(g.extent(0)) && !g.in_place && !p->swapped;
    in_tiles(of_sum, sum, stored_sums, stored_sums, tile, whole, false);
    if (way.parts > 1) return add_parts(g, p->sum, fours, placed);
    finish(g, element_each(work_of(g), fours ? g.extent(0) : 0).block, placed);
}

}  // namespace cryolite::gpu
