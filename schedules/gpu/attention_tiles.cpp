#include "schedules/gpu/attention_tiles.h"

#include <algorithm>

namespace cryolite::gpu {

namespace {

constexpr int shared_floats = 48 * 1024 / 4;  // of a block of threads, on all GPUs

/// The number of blocks of queries, which is that of blocks of keys.
int blocks_of(const Group &g) { return reduction_extent(g.func("top"), 1); }

}  // namespace

bool tiles_fit(const Group &g, const Machine &m) {
    const Func scores = g.func("S"), top = g.func("top"), share = g.func("share");
    // In OpenCL's kernels, Halide's vectors of several conditions do not compile: here of a mask and of rows past the
    // context.
    if (m.device != "cuda" && share.defined() && Internal::find_direct_calls(share.function()).count(top.name()))
        return false;
    return scores.defined() && top.defined() && scores.rvars().size() == 1 && top.rvars().size() == 2 &&
           2 * rows_of_block * head_size(g) <= shared_floats;
}

int head_size(const Group &g) { return reduction_extent(g.func("S")); }

Met where_met(Group &g, const Func &f, bool bounds) {
    const Func top = g.func("top");
    const Internal::Definition &along = top.function().update();
    const int blocks = blocks_of(g);
    RDom r(0, rows_of_block, 0, rows_of_block, 0, blocks, 0, blocks, "met");
    Expr met;
    if (const Expr p = along.predicate(); !Internal::is_const_one(p))
        met = Internal::substitute({{along.schedule().rvars()[1].var, r.z}, {top.args()[1].name(), r.w}}, p);
    if (met.defined()) r.where(bounds ? met : cast<float>(met) > 0.5f);
    const std::vector<Var> v = f.args();
    Var key_block("key_block");
    Func stored(f.name() + "_stored"), at(f.name() + "_at");
    stored(v[0], v[1], key_block, v[2], v[3], v[4]) = undef(f.type());
    stored(r.x, r.y, r.z, r.w, v[3], v[4]) = f(r.x, r.z * rows_of_block + r.y, r.w, v[3], v[4]);
    at(v) = stored(v[0], v[1] % rows_of_block, v[1] / rows_of_block, v[2], v[3], v[4]);
    std::vector<Func> readers = g.funcs();
    readers.push_back(g.out);
    for (const Func &reader : readers)
        if (reader.name() != f.name()) reader.function().substitute_calls(f.function(), at.function());
    element_each(stored.compute_root());
    return {stored, at, r.x, r.y, r.z, r.w};
}

void score_tiles(Group &g, Func f, Func x, Func y, Placed &placed) {
    const int size = head_size(g), rows = g.tunables("score_rows", 8, {1, 2, 4, 8}),
              keys = g.tunables("score_keys", 4, {1, 2, 4, 8});
    int most = g.tunables("score_blocks", 4, {1, 2, 4});
    const int of_blocks = rows_of_block / rows * (rows_of_block / keys);  // threads of two blocks that meet
    while (most > 1 && (2 * most * rows_of_block * size > shared_floats || of_blocks * most * most > most_threads))
        most /= 2;
    const int both = dividing(blocks_of(g), most), four = dividing(size, 4);
    Func y_of_tile = y.in(f);
    auto [stored, at, query, key, key_block, query_block] = where_met(g, f, false);
    Var h = stored.args()[4], s = stored.args()[5];
    RVar qt("qt"), qb("qb"), qi("qi"), kt("kt"), kb("kb"), ki("ki"), tile("tile");
    stored.update()
        .split(query, qt, query, rows)
        .split(key, kt, key, keys)
        .split(key_block, kb, ki, both)
        .split(query_block, qb, qi, both)
        .fuse(qt, kt, tile)
        .fuse(h, s, h)
        .reorder({query, key, tile, ki, qi, kb, qb, h})
        .vectorize(query)
        .unroll(key)
        .gpu_threads(tile, ki, qi)
        .gpu_blocks(kb, qb, h);
    const LoopLevel tiles(stored, kb);
    Var fl = f.args()[0], fj = f.args()[1];
    const RVar d = f.rvars()[0];
    f.bound_extent(fl, rows).bound_extent(fj, keys).compute_at(stored, tile).vectorize(fl).unroll(fj);
    f.update().reorder({fl, fj, d}).vectorize(fl).unroll(fj).unroll(d, four);
    // A thread loads four channels of a row, and stores each beside those of other rows.
    const int threads = rows_of_block / rows * (rows_of_block / keys), at_once = std::min(threads, rows_of_block);
    auto load = [&](Func loaded, Var e, Var row, const Var &of) {
        Var et("et"), ei("ei"), ri("ri");
        loaded.compute_at(tiles)
            .split(e, et, e, four)
            .split(et, et, ei, dividing(size / four, both))
            .split(row, row, ri, at_once)
            .reorder({e, row, et, ri, ei, of})
            .vectorize(e)
            .gpu_threads(ri, ei, of);
    };
    Var b = x.args()[2], j = y_of_tile.args()[1], jt("jt");
    load(x.bound_extent(b, both), x.args()[1], x.args()[0], b);
    y_of_tile.bound_extent(j, both * rows_of_block).reorder_storage(j, y_of_tile.args()[0]);
    y_of_tile.split(j, jt, j, rows_of_block);
    load(y_of_tile, y_of_tile.args()[0], j, jt);
    placed.insert({f.name(), stored.name(), x.name(), y_of_tile.name()});
}

int lanes_of_keys(const Group &g) { return dividing(blocks_of(g), 4); }

void by_fours_of_queries(Stage s, const VarOrRVar &query, std::vector<VarOrRVar> inside, std::vector<VarOrRVar> threads,
                         const std::vector<VarOrRVar> &outside) {
    VarOrRVar four = query.is_rvar ? VarOrRVar(RVar("four")) : VarOrRVar(Var("four"));
    s.split(query, query, four, 4);
    threads.insert(threads.begin(), query);
    std::vector<VarOrRVar> order = {four};
    for (const auto &loops : {inside, threads, outside}) order.insert(order.end(), loops.begin(), loops.end());
    s.reorder(order).vectorize(four);
    for (const VarOrRVar &t : threads) s.gpu_threads(t);
}

void along_keys(Func f, const LoopLevel &level, int lanes, Placed &placed) {
    Var l = f.args()[0], key("key"), lane("lane");
    const RVar k = f.rvars()[0], blocks = f.rvars()[1];
    RVar turn("turn"), k_lane("k_lane");
    f.update().split(blocks, turn, k_lane, lanes);
    Func part = f.update().rfactor({{k, key}, {k_lane, lane}});
    // Numbers in the names of lets depend on what Halide proved before, and would be part of the kernel's key.
    for (Expr &value : part.function().update().values()) value = Internal::substitute_in_all_lets(value);
    part.compute_at(level);
    by_fours_of_queries(part, l, {}, {key, lane});
    by_fours_of_queries(part.update(), l, {part.rvars()[0]}, {key, lane});
    Func of_key = f.update().rfactor(k, key);
    of_key.compute_at(level);
    by_fours_of_queries(of_key, l, {}, {key});
    by_fours_of_queries(of_key.update(), l, {of_key.rvars()[0]}, {key});
    f.compute_at(level);
    by_fours_of_queries(f, l, {}, {});
    by_fours_of_queries(f.update(), l, {f.rvars()[0]}, {});
    placed.insert({f.name(), part.name(), of_key.name()});
}

void numbers_of_queries(Func f, const std::vector<Func> &sums, int lanes, Placed &placed) {
    Var l = f.args()[0], b = f.args()[1], h = f.args()[2], s = f.args()[3];
    by_fours_of_queries(f.compute_root(), l, {}, {}, {b, h, s});
    f.gpu_blocks(b, h, s);
    for (const Func &sum : sums) along_keys(sum, LoopLevel(f, b), lanes, placed);
    placed.insert(f.name());
}

void blocks_of_queries(Stage s, const VarOrRVar &query, const RVar &key, const RVar &key_block, const RVar &query_block,
                       const Var &h, const Var &sequence, int lanes) {
    RVar turn("turn"), lane("lane");
    s.split(key_block, turn, lane, lanes);
    by_fours_of_queries(s, query, {turn}, {key, lane}, {query_block, h, sequence});
    s.gpu_blocks(query_block, h, sequence);
}

RowTile row_tile(Group &g) {
    const int size = head_size(g);
    RowTile t;
    t.channels = dividing(size, g.tunables("mix_channels", size >= 64 ? 4 : 2, {1, 2, 4, 8}));
    t.rows = g.tunables("mix_rows", 4, {1, 2, 4, 8});
    t.blocks = dividing(blocks_of(g), g.tunables("mix_blocks", 2, {1, 2, 4, 8}));
    while (t.blocks > 1 && size / t.channels * (rows_of_block / t.rows) * t.blocks > 256) t.blocks /= 2;
    while (t.rows < rows_of_block && size / t.channels * (rows_of_block / t.rows) > most_threads) t.rows *= 2;
    t.terms = g.tunables("mix_terms", 16, {2, 4, 8, 16});
    return t;
}

void sum_rows(Func f, Func shares, Func y, int row, const RowTile &tile, Placed &placed) {
    const int terms = tile.terms;
    Func whole = f.in();
    Var we = whole.args()[0], wl = whole.args()[1], wb = whole.args()[2], et("et"), lt("lt"), bi("bi");
    whole.compute_root()
        .split(we, et, we, tile.channels)
        .split(wl, lt, wl, tile.rows)
        .split(wb, wb, bi, tile.blocks)
        .reorder({we, wl, et, lt, bi, wb, whole.args()[3], whole.args()[4]})
        .vectorize(we)
        .unroll(wl)
        .gpu_threads(et, lt, bi)
        .gpu_blocks(wb, whole.args()[3], whole.args()[4]);
    Var e = f.args()[0], l = f.args()[1];
    const std::vector<RVar> k = f.rvars();
    RVar turn("turn"), term("term");
    std::vector<VarOrRVar> order = {e, l, term, turn};
    order.insert(order.end(), k.begin() + 1, k.end());
    f.compute_at(whole, et).vectorize(e).unroll(l);
    f.update().split(k[0], turn, term, terms).reorder(order).vectorize(e).unroll(l).unroll(term);
    auto load = [&](Func loaded, int first, int second) {
        const std::vector<Var> v = loaded.args();
        loaded.bound_extent(v[0], first).bound_extent(v[1], second).bound_extent(v[2], 1);
        loaded.compute_at(f, turn).vectorize(v[0]).unroll(v[1]);
        placed.insert(loaded.name());
    };
    load(shares.in(f), row == 0 ? tile.rows : terms, row == 0 ? terms : tile.rows);
    load(y.in(f), tile.channels, terms);
    placed.insert({f.name(), whole.name()});
}

void turn_at_root(Group &g, Placed &placed) {
    if (!g.func("cosine").defined()) return;
    for (const char *name : {"cosine", "sine", "q", "k"}) {
        Func f = g.func(name);
        element_each(f.compute_root());
        placed.insert(f.name());
    }
}

}  // namespace cryolite::gpu
