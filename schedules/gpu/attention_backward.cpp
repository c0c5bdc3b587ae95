// The gradient of self-attention, in seven launches: scores; the adjoints of weights; probabilities and the adjoints of
// scores; the adjoints of queries, of keys, and of values; the heads' gradients side by side.

#include "schedules/gpu/attention_tiles.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

/// Tells Halide, which cannot prove it of packed indices, that no two iterations write the same element.
void in_any_order(const Stage &s) {
    Internal::StageSchedule schedule = s.get_schedule();
    for (Internal::Dim &d : schedule.dims())
        if (d.is_rvar()) d.dim_type = Internal::DimType::PureRVar;
}

/// P and dS. A block of threads takes a block of queries, and the blocks of keys by turns.
void store_factors(Group &g, int lanes, Placed &placed) {
    Func PdS = g.func("PdS"), share = g.func("share");
    Var l = PdS.args()[0], h = PdS.args()[3], s = PdS.args()[4];
    RVar key = PdS.rvars()[0], key_block = PdS.rvars()[1], query_block = PdS.rvars()[2];
    element_each(PdS.compute_root());
    in_any_order(PdS.update());
    blocks_of_queries(PdS.update(), l, key, key_block, query_block, h, s, lanes);
    const LoopLevel level(PdS, query_block);
    for (const char *name : {"top", "total", "rowdot"}) along_keys(g.func(name), level, lanes, placed);
    by_fours_of_queries(share.compute_at(level), share.args()[0], {}, {});
    placed.insert({PdS.name(), share.name()});
}

/// The gradient of qkv: a thread takes some channels of a head.
void side_by_side(Group &g, Placed &placed) {
    constexpr int most_parts = 6;
    Func out = g.anchor;
    const int channels = g.func("cosine").defined() ? 1 : dividing(head_size(g), 4);
    int rows = 8;
    while (head_size(g) / channels * rows > most_threads) rows /= 2;
    const bool unrolled = reduction_extent(out, 1) <= most_parts;
    Var t = out.args()[1], ti("ti"), s = out.args()[2];
    RVar e = out.rvars()[0], part = out.rvars()[1], h = out.rvars()[2], et("et");
    element_each(out);
    Stage update = out.update();
    in_any_order(update);
    update.split(e, et, e, channels)
        .split(t, t, ti, rows, TailStrategy::GuardWithIf)
        .reorder({e, part, et, ti, t, h, s})
        .vectorize(e)
        .gpu_threads(et, ti)
        .gpu_blocks(t, h, s);
    if (unrolled) update.unroll(part);
    placed.insert(out.name());
}

}  // namespace

void attention_backward(Group &g) {
    Placed placed;
    const RowTile tile = row_tile(g);
    const int lanes = lanes_of_keys(g);
    turn_at_root(g, placed);
    const Func q = g.func("q"), k = g.func("k"), v = g.func("v"), dy = g.func("g");
    score_tiles(g, g.func("S"), g.func("qT"), k, placed);
    score_tiles(g, g.func("dP"), g.func("dyT"), v, placed);
    store_factors(g, lanes, placed);
    sum_rows(g.func("dq"), g.func("dS_factor"), k, 0, tile, placed);
    sum_rows(g.func("dk"), g.func("dS_factor"), q, 1, tile, placed);
    sum_rows(g.func("dv"), g.func("P_factor"), dy, 1, tile, placed);
    Var of_kernel("of_kernel");
    side_by_side(g, placed);
    if (g.out.name() == g.anchor.name()) {
        of_kernel = g.out.args()[1];
    } else {
        g.anchor.compute_root();
        of_kernel = element_each(g.out, g.extent(0)).block;
    }
    finish(g, of_kernel, placed);
}

}  // namespace cryolite::gpu
