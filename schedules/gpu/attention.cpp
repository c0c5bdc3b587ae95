// Self-attention, forward: a block of threads takes a block of queries of a head, and keeps scores in shared memory.

#include "dsl/layers/attention_algorithm.h"
#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

constexpr int rows = 4;         // of threads, which take the queries of a block by turns
constexpr int most_keys = 256;  // their scores and weights take 32 of the 48 KiB that all GPUs have

/// Computes f(l, x...) at `level`: rows of threads take the l by turns, the `threads` threads of a row the x.
void by_threads(Func f, const LoopLevel &level, int threads) {
    Var l = f.args()[0], x = f.args()[1], turn("turn"), several("several");
    f.compute_at(level);
    auto loops = [&](Halide::Stage s, std::vector<VarOrRVar> order) {
        s.split(l, turn, l, rows).split(x, several, x, threads, TailStrategy::GuardWithIf);
        order.insert(order.end(), {several, turn, x, l});
        s.reorder(order).gpu_threads(x, l);
    };
    loops(f, {});
    if (!f.has_update_definition()) return;
    const std::vector<RVar> k = f.rvars();
    loops(f.update(), std::vector<VarOrRVar>(k.begin(), k.end()));
}

/// A sum or maximum f(l...) along keys, which reduces over the keys of a block and over the blocks: a thread for each
/// key of a block.
void along_keys(Func f, const LoopLevel &level, Placed &placed) {
    Var l = f.args()[0], key("key"), turn("turn");
    Func part = f.update().rfactor(f.rvars()[0], key);
    part.compute_at(level).split(l, turn, l, rows).reorder(turn, key, l).gpu_threads(key, l);
    part.update().split(l, turn, l, rows).reorder({part.rvars()[0], turn, key, l}).gpu_threads(key, l);
    f.compute_at(level).gpu_threads(l);
    f.update().gpu_threads(l);
    placed.insert({f.name(), part.name()});
}

}  // namespace

void attention(Group &g, const Machine &m) {
    constexpr int block = AttentionAlgorithm::block;
    Func mixed = g.func("mixed"), scores = g.func("S"), weight = g.func("weight");
    if (!mixed.defined() || g.in_place || g.extents.size() != 3) return plain_loops(g, m);
    const int keys = g.extent(1), size = reduction_extent(scores);
    if (keys % block || keys > most_keys || size > 128) return plain_loops(g, m);
    Placed placed = {mixed.name(), scores.name(), weight.name()};
    Var c = g.out.args()[0], t = g.out.args()[1], s = g.out.args()[2];
    Var h("h"), e("e"), b("b"), l("l"), turn("turn");
    g.out.split(c, h, e, size)
        .split(t, b, l, block)
        .split(l, turn, l, rows)
        .reorder(turn, e, l, b, h, s)
        .gpu_threads(e, l)
        .gpu_blocks(b, h, s);
    const LoopLevel level(g.out, b);
    by_threads(scores.bound_storage(scores.args()[1], keys), level, size);
    by_threads(weight.bound_storage(weight.args()[1], keys), level, size);
    along_keys(g.func("top"), level, placed);
    along_keys(g.func("total"), level, placed);
    Var me = mixed.args()[0], ml = mixed.args()[1], mturn("turn");
    const std::vector<RVar> k = mixed.rvars();
    mixed.compute_at(level).split(ml, mturn, ml, rows).reorder(mturn, me, ml).gpu_threads(me, ml);
    mixed.update().split(ml, mturn, ml, rows).reorder({k[0], k[1], mturn, me, ml}).gpu_threads(me, ml);
    finish(g, b, placed);
}

}  // namespace cryolite::gpu
