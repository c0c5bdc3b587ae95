// Self-attention: a task is one head of one sequence, whose blocks of queries stay in L1 or L2.
//
// Register budget (AVX-512): 16 accumulators, one vector of queries x 16 keys (scores), or the
// channels of a head x 4 to 8 rows (sums of rows).
//
// Blocks of 16 compute 62 % of the square of scores at context 64 and 51 % at 1024. Only the causal half counts as
// work, so that shares of the peak cannot exceed 80 and 98 %.

#include "dsl/layers/attention_algorithm.h"
#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"
#include "schedules/cpu/pairs.h"
#include "schedules/cpu/transpose_words.h"

namespace cryolite::cpu {

namespace {

constexpr int block = AttentionAlgorithm::block;

/// The most lanes, a power of two, that divide `extent`.
int dividing_lanes(int extent, const Machine &m) {
    int lanes = m.vector;
    while (extent % lanes) lanes /= 2;
    return lanes;
}

/// Where registers are few, tiles are small beside the cost of their loop: an iteration then adds two terms.
void two_terms(Stage s, const RVar &k, int terms, const Machine &m) {
    if (m.registers < 32 && terms % 2 == 0) s.unroll(k, 2);
}

/// Whether products take their terms in pairs of bf16.
bool pairs_of_terms(const Group &g) { return g.func("S").rvars().size() == 2; }

/// Channels of a head.
int head_size(const Group &g) {
    const Func scores = g.func("S");
    return pairs_of_terms(g) ? 2 * reduction_extent(scores, 1) : reduction_extent(scores);
}

/// The loops of a tile of f(x, y) that is kept in registers, inside of the loops over its terms. Where terms come in
/// pairs, the two of a pair are innermost.
void tile_loops(const Group &g, Func f, const Var &lane, const Var &x, const Var &y, std::vector<VarOrRVar> outside,
                const Machine &m) {
    Stage s = f.update();
    const std::vector<RVar> k = f.rvars();
    std::vector<VarOrRVar> order = {lane, x, y};
    const bool pairs = pairs_of_terms(g);
    if (pairs) order.insert(order.begin(), k[0]);
    order.insert(order.end(), k.begin() + pairs, k.end());
    order.insert(order.end(), outside.begin(), outside.end());
    s.reorder(order);
    if (pairs)
        across_pairs(s, lane, k[0], m);
    else
        two_terms(s.vectorize(lane), k[0], reduction_extent(f), m);
    s.unroll(x).unroll(y);
}

/// Scores, f(l, j) += ... over channels: queries l across lanes, a few keys j in registers.
void score_loops(Group &g, Func f, const Machine &m) {
    Var l = f.args()[0], j = f.args()[1], jt("jt");
    const int lanes = std::min(m.vector, block), vectors = block / lanes;
    int high = block;
    while (high * vectors > m.registers * 2 / 3) high /= 2;
    high = g.tunables("keys", high, doublings(block));
    f.vectorize(l, lanes);
    Var lane("lane");
    f.update().split(j, jt, j, high, TailStrategy::RoundUp).split(l, l, lane, lanes);
    tile_loops(g, f, lane, l, j, {jt}, m);
}

/// Sums of rows, f(e, l) += ... over a block and over blocks: channels e across lanes, a few rows l in registers.
void mix_loops(Group &g, Func f, const Machine &m, int size) {
    Var e = f.args()[0], l = f.args()[1], et("et"), lt("lt"), lane("lane");
    const int lanes = dividing_lanes(size, m);
    int vectors = size / lanes, high = block;
    while (vectors > 4 && vectors % 2 == 0) vectors /= 2;
    while (high > 1 && high * vectors > m.registers * 3 / 4) high /= 2;
    std::vector<int> widths;
    for (int v : whole_numbers(1, size / lanes))
        if (size / lanes % v == 0 && v <= 8) widths.push_back(v);
    vectors = g.tunables("mix_vectors", vectors, widths);
    high = g.tunables("mix_rows", high, doublings(block));
    f.vectorize(e, lanes);
    f.update().split(e, et, e, lanes * vectors).split(e, e, lane, lanes).split(l, lt, l, high);
    tile_loops(g, f, lane, e, l, {et, lt}, m);
}

/// Copies rows, or a block's queries, in pairs: argument 1 across lanes, the two of a pair beside each other.
void pack_terms(Group &g, std::initializer_list<const char *> names, const LoopLevel &level, int lanes) {
    for (const char *name : names) {
        Func f = g.func(name);
        if (!f.defined()) continue;
        Var of = f.args()[0], lane = f.args()[1];
        f.compute_at(level).reorder(of, lane, f.args()[2]).vectorize(lane, lanes).unroll(of);
    }
}

/// Funcs of a block of queries, which are across lanes.
void across_queries(Group &g, std::initializer_list<const char *> names, const LoopLevel &level, int lanes) {
    for (const char *name : names) {
        Func f = g.func(name);
        f.compute_at(level).vectorize(f.args()[0], lanes);
        if (f.has_update_definition()) f.update().vectorize(f.args()[0], lanes);
    }
}

/// Everything up to the softmax of one block of queries, computed at `level`.
void softmax_at(Group &g, const Machine &m, const LoopLevel &level) {
    const int lanes = std::min(m.vector, block);
    across_queries(g, {"top", "weight", "total", "share"}, level, lanes);
    if (pairs_of_terms(g)) {
        g.passes["transpose_words 1"] = transpose_words;
        pack_terms(g, {"qT_pairs", "weight_pairs"}, level, lanes);
    } else {
        across_queries(g, {"qT"}, level, lanes);
    }
    g.func("S").compute_at(level);
    score_loops(g, g.func("S"), m);
}

/// Copies the rows of a head, channels across lanes. Where a head has few vectors, they are unrolled: rotated channels
/// then share what they read.
void pack_heads(Group &g, std::initializer_list<const char *> names, const LoopLevel &level, const Machine &m) {
    const int size = head_size(g), lanes = dividing_lanes(size, m);
    for (const char *name : names) {
        Func f = g.func(name);
        const Var e = f.args()[0];
        f.compute_at(level).vectorize(e, lanes);
        if (size / lanes <= 8) f.bound(e, 0, size).unroll(e);
    }
}

/// Computes angles once: they are the same for all heads and sequences.
void share_angles(Group &g) {
    if (!g.func("cosine").defined()) return;
    g.func("frequency").compute_root();
    for (const char *name : {"cosine", "sine"}) g.func(name).compute_root().parallel(g.func(name).args()[1]);
}

void pack_forward(Group &g, const LoopLevel &level, const Machine &m) {
    const bool rotary = g.func("cosine").defined();
    if (pairs_of_terms(g)) {
        pack_heads(g, {"k_half"}, level, m);
        if (rotary) pack_heads(g, {"q_half"}, level, m);
        return pack_terms(g, {"v_rows"}, level, dividing_lanes(head_size(g), m));
    }
    // Without copies, the inner loops would widen each 16-bit element, or rotate each key, again and again. Other
    // elements have too few readers for a copy to pay.
    enum Pack { none, keys, keys_and_values };
    const int usual = g.func("x0_half").defined() ? keys_and_values : rotary ? keys : none;
    const int pack = g.tunables("pack", usual, {none, keys, keys_and_values});
    if (pack == keys_and_values)
        pack_heads(g, {"k", "v"}, level, m);
    else if (pack == keys)
        pack_heads(g, {"k"}, level, m);
}

void attend_forward(Group &g, const Machine &m) {
    Func out = g.out, mixed = g.func("mixed");
    const int size = head_size(g);
    Var c = out.args()[0], t = out.args()[1], s = out.args()[2], h("h"), b("b"), task("task");
    out.split(c, h, c, size)
        .split(t, b, t, block, TailStrategy::GuardWithIf)
        .reorder(c, t, b, h, s)
        .fuse(h, s, task)
        .parallel(task)
        .vectorize(c, dividing_lanes(size, m));
    mixed.compute_at(out, b);
    mix_loops(g, mixed, m, size);
    pack_forward(g, LoopLevel(out, task), m);
    // Rotated before they are transposed: along a row, what a rotation reads lies side by side.
    if (g.func("cosine").defined() && !pairs_of_terms(g)) pack_heads(g, {"q"}, LoopLevel(out, b), m);
    share_angles(g);
    softmax_at(g, m, LoopLevel(out, b));
}

void attend_backward(Group &g, const Machine &m) {
    Func out = g.anchor, PdS = g.func("PdS");
    const int size = head_size(g), lanes = std::min(m.vector, block);
    Var t = out.args()[1], s = out.args()[2];
    RVar e = out.rvars()[0], part = out.rvars()[1], h = out.rvars()[2], task("task");
    out.update()
        .allow_race_conditions()
        .reorder({e, t, part, h, s})
        .fuse(h, s, task)
        .parallel(task)
        .unroll(part)
        .vectorize(e, dividing_lanes(size, m));
    for (const char *name : {"dq", "dk", "dv"}) {
        Func f = g.func(name);
        f.compute_at(out, task);
        mix_loops(g, f, m, size);
    }
    const LoopLevel head(out, task);
    if (pairs_of_terms(g)) {
        pack_heads(g, {"k_half", "v_half"}, head, m);
        if (g.func("cosine").defined()) pack_heads(g, {"q_half"}, head, m);
        pack_terms(g, {"q_rows", "k_rows", "g_rows"}, head, dividing_lanes(size, m));
        pack_terms(g, {"dS_pairs"}, head, lanes);
    } else if (g.tunables("pack", 1, {0, 1})) {
        pack_heads(g, {"q", "k", "v", "g"}, head, m);
    }
    share_angles(g);
    RVar in_block = PdS.rvars()[0], keys = PdS.rvars()[1], queries = PdS.rvars()[2];
    PdS.compute_at(out, task);
    PdS.update().reorder({PdS.args()[0], in_block, keys, queries}).vectorize(PdS.args()[0], lanes);
    if (g.out.name() != out.name()) {  // something follows in this kernel
        out.compute_root();
        pointwise(g, m);
    }
    const LoopLevel level(PdS, queries);
    softmax_at(g, m, level);
    g.func("dP").compute_at(level);
    score_loops(g, g.func("dP"), m);
    across_queries(g, {"rowdot"}, level, lanes);
    if (pairs_of_terms(g))
        pack_terms(g, {"dyT_pairs"}, level, lanes);
    else
        across_queries(g, {"dyT"}, level, lanes);
}

}  // namespace

void attention(Group &g, const Machine &m) { g.form == Form::forward ? attend_forward(g, m) : attend_backward(g, m); }

}  // namespace cryolite::cpu
