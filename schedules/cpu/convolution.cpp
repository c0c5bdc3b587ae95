// Convolutions over [channels, width, height, batch]. A tile of accumulators is a row of places times vectors of
// channels: every place multiplies the same vectors of the weight. A task copies its part of an image once, with the
// zeros around it.

#include <algorithm>

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

namespace {

/// What an anchor multiplies with its weight or its adjoint: an image with zeros around it.
Func image_of(const Group &g) {
    Func padded = g.func("padded");
    return padded.defined() ? padded : g.func("spread");
}

/// The indices at which an anchor's sum reads `of`, and the stride by which it divides places (1: it does not).
class Sum : public Internal::IRVisitor {
public:
    std::vector<Expr> at;
    int divisor = 1;

    Sum(const Func &f, const Func &of) : of(of.name()) { f.update_value().accept(this); }

private:
    const std::string of;
    using IRVisitor::visit;
    void visit(const Internal::Call *op) override {
        if (op->name == of) at = op->args;
        IRVisitor::visit(op);
    }
    void visit(const Internal::Mod *op) override {
        divisor = int(Internal::as_const_int(op->b).value_or(1));
        IRVisitor::visit(op);
    }
};

bool is_variable(const Expr &e) { return e.as<Internal::Variable>() != nullptr; }

/// The tile for these channels and places, as `register_tile` chooses it, but of any height that is a multiple of
/// `multiple`: one that divides the places computes least.
Tile tile_of(int channels, int places, int multiple, const Machine &m) {
    const int lanes = lanes_within(channels, m), most = m.registers * 3 / 4;
    Tile best{lanes, lanes, multiple};
    double least = 1e30;
    for (int v = 1; v <= 4 && v * lanes <= channels; v++)
        for (int high = multiple; high <= std::min(places, most / v); high += multiple) {
            const double computed = double(ceil_div(channels, v * lanes) * v * lanes) * ceil_div(places, high) * high;
            const double waiting = std::max(1.0, 8.0 / (v * high));  // 8 multiply-adds hide the latency of one
            const double cost = computed * waiting * (1 + 0.2 * (1.0 / v + 1.0 / high));
            if (cost < least) least = cost, best = {lanes, v * lanes, high};
        }
    return best;
}

Tile tuned(Group &g, Tile t, int channels, int places, int multiple, const Machine &m) {
    std::vector<int> widths, heights;
    for (int v = 1; v <= 4 && v * t.lanes <= channels; v++) widths.push_back(v * t.lanes);
    t.columns = g.tunables("columns", t.columns, widths);
    for (int high = multiple; high <= std::max(multiple, std::min(places, m.registers * 3 / 4 * t.lanes / t.columns));
         high += multiple)
        heights.push_back(high);
    t.rows = g.tunables("rows", std::min(t.rows, heights.back()), heights);
    return t;
}

/// Copies, at `level`, the rows of images that are read there, with the zeros around them.
void stage_image(Func image, const LoopLevel &level, int channels, const Machine &m) {
    Var c = image.args()[0], u = image.args()[1];
    image.compute_at(level);
    if (channels > 1)
        image.vectorize(c, lanes_within(channels, m), TailStrategy::GuardWithIf);
    else
        image.vectorize(u, m.vector, TailStrategy::GuardWithIf);
}

/// Transposes the weight once for the whole kernel, so that the channels of the result are innermost.
void turn_weight(Func W, const Machine &m) {
    std::vector<Var> v = W.args();
    W.compute_root().reorder_storage({v[1], v[0], v[2], v[3]}).reorder({v[1], v[0], v[2], v[3]}).parallel(v[3]);
    W.vectorize(v[1], m.vector, TailStrategy::GuardWithIf);
}

/// y and dX: a task is some rows of an image.
void places(Group &g, const Func &image, const Sum &sum, const Machine &m) {
    const int channels = g.extent(0), width = g.extent(1), height = g.extent(2), images = g.extent(3);
    Func y = g.anchor, out = g.out, W = g.func("weight");
    const std::vector<RVar> k = y.rvars();
    const int s = sum.divisor, terms = reduction_extent(y, 0), window = reduction_extent(y, 1) * reduction_extent(y, 2);
    const Tile t = tuned(g, tile_of(channels, width, s, m), channels, width, s, m);
    const int rows =
        g.tunables("rows_of_task",
                   std::min(height, s * items_per_task(ceil_div(height, s), images,
                                                       int64_t(channels) * width * s * terms * window / s / s)),
                   doublings(height));
    Var o = out.args()[0], u = out.args()[1], v = out.args()[2], n = out.args()[3];
    Var ot("ot"), ut("ut"), vb("vb"), vi("vi"), task("task");
    out.split(o, ot, o, t.columns, TailStrategy::ShiftInwards)
        .split(u, ut, u, t.rows, s == 1 ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf)
        .split(v, vb, v, ceil_div(rows, s) * s, TailStrategy::GuardWithIf);
    if (s == 1)
        out.reorder({o, u, ut, ot, v, vb, n});
    else
        out.split(v, v, vi, s, TailStrategy::GuardWithIf).reorder({o, u, ut, ot, vi, v, vb, n}).unroll(vi);
    out.fuse(vb, n, task).parallel(task).unroll(u);
    across_lanes(out, o, t.lanes);
    stage_image(image, LoopLevel(out, task), terms, m);
    if (!Internal::expr_uses_var(Sum(y, W).at[0], y.args()[0].name())) turn_weight(W, m);

    y.compute_at(out, ut).unroll(y.args()[1]);
    if (s > 1) y.bound_extent(y.args()[1], t.rows).align_bounds(y.args()[1], s);
    across_lanes(y, y.args()[0], t.lanes);
    Var c = y.args()[0], x = y.args()[1], lane("lane");
    Stage sums = y.update();
    sums.split(c, c, lane, t.lanes).vectorize(lane).unroll(c).unroll(x);
    if (s == 1)
        sums.reorder({lane, c, x, k[0], k[1], k[2]});
    else
        sums.reorder({lane, c, x, k[1], k[2], k[0]}).unroll(k[1]).unroll(k[2]);
}

/// Rows of an image that a place of the window adds while its sums stay in registers: as many as caches hold.
int rows_at_once(Group &g) {
    constexpr int64_t held = 256 << 10;  // bytes
    const int width = reduction_extent(g.anchor, 0), height = reduction_extent(g.anchor, 1);
    const int64_t bytes_of_row = int64_t(4) * width * (g.extent(0) + g.extent(1));
    const int usual = int(std::clamp<int64_t>(held / bytes_of_row, 1, height));
    return g.tunables("rows_at_once", usual, whole_numbers(1, height));
}

/// dW: partial sums over some images each, then the sum of these. A task is one part of the images and one tile of
/// input channels: it goes through its images some rows at a time, and adds these to every place of the window.
void weight(Group &g, Func image, const Machine &m) {
    Func dW = g.anchor;
    const int out = g.extent(0), in = g.extent(1);
    const std::vector<RVar> r = dW.rvars();
    const int images = reduction_extent(dW, 2), rows = rows_at_once(g);
    // A task copies its input channels of each image: whole vectors of them, where tiles are small beside the copies.
    const int copied = m.registers < 32 && in % m.vector == 0 ? m.vector : 1;
    Tile t = tuned(g, tile_of(out, in, copied, m), out, in, 1, m);
    // A partial sum for each part of the images keeps all threads busy, and the images of a part, which are read again
    // for each tile, in a cache. The parts have equally many images.
    constexpr int64_t held = 1 << 20;  // bytes
    const int64_t bytes = int64_t(4) * images * reduction_extent(dW, 0) * reduction_extent(dW, 1) * (out + in);
    std::vector<int> parts;
    for (int n : whole_numbers(1, std::min(images, 64)))
        if (images % n == 0) parts.push_back(n);
    const int tiles = ceil_div(out, t.columns) * ceil_div(in, t.rows);
    int usual = parts.back();
    for (int n : parts)
        if (n * tiles >= 16 && bytes / n <= held && n < usual) usual = n;
    const int chunks = g.tunables("parts", usual, parts, Sums::other_order);

    RVar chunk("chunk");
    Var part("part");
    dW.update().split(r[2], chunk, r[2], images / chunks);
    Func sums = dW.update().rfactor(chunk, part);
    {  // adds up the parts, in rows of the weight
        const int lanes = lanes_within(out, m);
        std::vector<Var> v = g.out.args();
        Var place("place"), o = dW.args()[0], lane("lane");
        g.store().fuse(v[2], v[3], place).parallel(place);
        g.store().vectorize(v[0], lanes, g.in_place ? TailStrategy::GuardWithIf : TailStrategy::Auto);
        dW.compute_at(g.out, v[1]).vectorize(o, lanes, TailStrategy::GuardWithIf);
        dW.update()
            .split(o, o, lane, lanes, TailStrategy::GuardWithIf)
            .reorder({lane, o, dW.rvars()[0]})
            .vectorize(lane);
    }
    Var o = sums.args()[0], c = sums.args()[1], kx = sums.args()[2], ky = sums.args()[3];
    Var ot("ot"), ct("ct"), lane("lane"), task("task");
    sums.compute_root().vectorize(o, t.lanes, TailStrategy::GuardWithIf).parallel(part);
    Stage s = sums.update();
    const RVar y = r[1];
    RVar row("row"), block("block");
    std::vector<VarOrRVar> order = {lane, o, c, r[0], y, kx, ky, ot, r[2], ct, part};
    if (rows < reduction_extent(sums, 1)) {
        s.split(y, block, row, rows, TailStrategy::GuardWithIf);
        order = {lane, o, c, r[0], row, kx, ky, ot, block, r[2], ct, part};
    }
    s.split(o, ot, o, t.columns, TailStrategy::GuardWithIf)
        .split(c, ct, c, t.rows, TailStrategy::GuardWithIf)
        .split(o, o, lane, t.lanes, TailStrategy::GuardWithIf)
        .reorder(order)
        .fuse(ct, part, task)
        .parallel(task)
        .vectorize(lane)
        .unroll(o)
        .unroll(c);
    // Of a short row, unrolled, the sums stay in registers from row to row.
    if (g.tunables("unroll", m.registers < 32 && reduction_extent(sums, 0) <= 16, {0, 1})) s.unroll(r[0]);
    stage_image(image, LoopLevel(sums, r[2]), in, m);
}

}  // namespace

void convolution(Group &g, const Machine &m) {
    const Func image = image_of(g);
    const Sum sum(g.anchor, image);
    // In a convolution with groups, the channels across lanes read different channels of the image.
    if (!image.defined() || sum.at.empty() || !is_variable(sum.at[0])) return windows(g, m);
    if (g.form == Form::d_parameter) return weight(g, image, m);
    places(g, image, sum, m);
}

}  // namespace cryolite::cpu
