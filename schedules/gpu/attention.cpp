// Self-attention. Forward, it takes five launches: scores; weights; the shares of queries; products with values;
// the heads side by side.

#include "schedules/gpu/attention_tiles.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

/// Stores weights where queries and keys meet. Returns the stored Func.
Func store_weights(Group &g, int lanes, Placed &placed) {
    auto [stored, at, query, key, key_block, query_block] = where_met(g, g.func("weight"), true);
    Var h = stored.args()[4], s = stored.args()[5];
    blocks_of_queries(stored.update(), query, key, key_block, query_block, h, s, lanes);
    Func top = g.func("top");
    if (Internal::find_direct_calls(g.func("share").function()).count(top.name()))  // where keys have a mask
        numbers_of_queries(top.in(), {top}, lanes, placed);
    else
        along_keys(top, LoopLevel(stored, query_block), lanes, placed);
    placed.insert(stored.name());
    return at;
}

void forward(Group &g) {
    Placed placed;
    const RowTile tile = row_tile(g);
    const int lanes = lanes_of_keys(g);
    turn_at_root(g, placed);
    score_tiles(g, g.func("S"), g.func("qT"), g.func("k"), placed);
    const Func weight = store_weights(g, lanes, placed), mixed = g.func("mixed"), v = g.func("v");
    numbers_of_queries(g.func("share"), {g.func("total")}, lanes, placed);
    sum_rows(mixed, weight, v, 0, tile, placed);
    finish(g, element_each(g.out, g.extent(0)).block, placed);
}

}  // namespace

void attention(Group &g, const Machine &m) {
    if (g.in_place || g.extents.size() != 3 || !tiles_fit(g, m)) return plain_loops(g, m);
    if (g.form == Form::forward) return forward(g);
    attention_backward(g);
}

}  // namespace cryolite::gpu
