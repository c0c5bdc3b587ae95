// Convolutions. A thread has a tile of sums in registers: four channels, and several places of a row of the image. It
// reads four neighbouring channels by one load. A weight's gradient has few sums of many terms: a thread adds some rows
// of some images, and one more launch adds these parts, in their order.

#include <algorithm>

#include "schedules/contraction.h"
#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

constexpr int enough_threads = 1 << 16;

/// The image with zeros around it that the anchor reads, if it reads each channel for itself: not in groups.
Func image_of(const Group &g) {
    for (const char *name : {"padded", "spread"}) {
        const Func f = g.func(name);
        const auto reads =
            f.defined() ? reads_of(g.anchor.function().update(), f) : std::vector<const Internal::Call *>();
        if (reads.size() == 1 && reads[0]->args[0].as<Internal::Variable>()) return f;
    }
    return Func();
}

/// The weight that the anchor reads once, or an undefined Func.
Func weight_of(const Group &g) {
    const Func w = g.func("weight");
    return w.defined() && reads_of(g.anchor.function().update(), w).size() == 1 ? w : Func();
}

/// Whether `f` has neighbours where the anchor has them in `c`.
bool neighbours(const Group &g, const Func &f, const Var &c) {
    const auto *v = reads_of(g.anchor.function().update(), f)[0]->args[0].as<Internal::Variable>();
    return v && v->name == c.name();
}

/// The loops of a tile of `channels` x `others` sums for each thread, of the first two dimensions of `s`.
Threads tile_each(Halide::Stage s, const std::vector<Var> &v, int channels, int others) {
    Threads t;
    Var lane("lane"), other("other"), e("element");
    s.split(v[0], e, lane, channels, TailStrategy::RoundUp).split(v[1], v[1], other, others, TailStrategy::RoundUp);
    s.fuse(e, v[1], e);
    for (size_t d = 2; d < v.size(); d++) s.fuse(e, v[d], e);
    s.split(e, t.block, t.thread, block_threads, TailStrategy::GuardWithIf)
        .reorder({lane, other, t.thread, t.block})
        .vectorize(lane)
        .unroll(other)
        .gpu_blocks(t.block)
        .gpu_threads(t.thread);
    return t;
}

int64_t elements(const Group &g) {
    int64_t n = 1;
    for (int e : g.extents) n *= e;
    return n;
}

/// Y and dX: the image's channels are terms of the sums.
void image(Group &g, Func read) {
    constexpr int lanes = 4;
    Func sum = g.anchor;
    // Fewer places for each thread where there would be too few threads.
    int places = 8;
    while (places > 1 && (g.extent(1) % places || elements(g) / (lanes * places) < enough_threads / 2)) places--;
    places = g.tunables("places", places, {1, 2, 4, divisor(g.extent(1), 7), divisor(g.extent(1), 8)});
    if (g.extent(1) % places) places = 1;
    const Threads loops = tile_each(g.out, g.out.args(), lanes, places);
    const std::vector<RVar> k = sum.rvars();
    const Var c = sum.args()[0], u = sum.args()[1];
    Func w = weight_of(g);
    const bool columns_of_weight = w.defined() && neighbours(g, w, c);
    sum.compute_at(g.out, loops.thread).vectorize(c).unroll(u);
    Placed placed = {sum.name()};
    std::vector<VarOrRVar> order = {c, u, k[0], k[1], k[2]};
    if (reduction_extent(sum) % lanes == 0) {
        RVar four("four");
        sum.update().split(k[0], k[0], four, lanes);
        order.insert(order.begin() + 1, four);
        sum.update().reorder(order).unroll(four);
        read.compute_at(sum, u).vectorize(read.args()[0], lanes);
        placed.insert(read.name());
        // The channels of dX are rows of W: its fours are terms.
        if (w.defined() && !columns_of_weight) {
            w.compute_at(sum, k[0]).vectorize(w.args()[0], lanes).unroll(w.args()[1]);
            placed.insert(w.name());
        }
    } else {
        sum.update().reorder(order);
    }
    columns_of_weight ? sum.update().vectorize(c) : sum.update().unroll(c);
    sum.update().unroll(u);
    finish(g, loops.block, placed);
}

/// dW. `f` adds its terms over the columns, the rows and the images of a batch.
void weight(Group &g, Func read) {
    constexpr int lanes = 4, adders = 8;
    Func sum = g.anchor;
    // A power of two: a vector of three is as large as one of four in OpenCL.
    const int columns = dividing(g.extent(1), lanes), rows = reduction_extent(sum, 1),
              images = reduction_extent(sum, 2);
    const int wanted = std::max(1, int(enough_threads / std::max<int64_t>(1, elements(g) / (lanes * columns))));
    const int usual = divisor(images, wanted), usual_rows = divisor(rows, wanted / usual);
    auto divisors = [](int n) {
        std::vector<int> d;
        for (int i = 1; i <= n; i++)
            if (n % i == 0) d.push_back(i);
        return d;
    };
    const int of_images = g.tunables("parts_of_images", usual, divisors(images), Sums::other_order);
    const int of_rows = g.tunables("parts_of_rows", usual_rows, divisors(rows), Sums::other_order);
    RVar iz("image_part"), iy("row_part"), lane("adder");
    Var z("images"), y("rows"), of_lane("of_adder");
    const std::vector<RVar> m = sum.rvars();
    sum.update().split(m[2], iz, m[2], images / of_images).split(m[1], iy, m[1], rows / of_rows);
    Func some = sum.update().rfactor({{iz, z}, {iy, y}}), stored = some.in();
    stored.compute_root();
    const Threads loops = tile_each(stored, stored.args(), lanes, columns);
    const std::vector<Var> v = some.args();
    some.compute_at(stored, loops.thread).vectorize(v[0], lanes).unroll(v[1]);
    some.update().reorder({v[0], v[1], m[0], m[1], m[2]}).vectorize(v[0], lanes).unroll(v[1]);
    read.compute_at(some, m[0]).vectorize(read.args()[0], read.args()[0].name() == v[0].name() ? lanes : columns);
    Placed placed = {sum.name(), some.name(), stored.name(), read.name()};
    // Several threads add the parts of a sum, then one adds theirs.
    const int n = divisor(of_images, adders);
    Var o = g.out.args()[0], e("weight"), block("block");
    const int channels = divisor(g.extent(0), 32);
    Halide::Stage s = work_of(g);
    s.split(o, block, o, channels, TailStrategy::RoundUp);
    for (size_t d = 1; d < g.out.args().size(); d++) s.fuse(block, g.out.args()[d], block);
    s.gpu_threads(o).gpu_blocks(block);
    sum.compute_at(g.out, o);
    if (n > 1) {
        sum.update().split(iz, iz, lane, n);
        Func part = sum.update().rfactor(lane, of_lane);
        part.compute_at(g.out, block).gpu_threads(part.args()[0], of_lane);
        part.update().reorder({iz, iy, part.args()[0], of_lane}).gpu_threads(part.args()[0], of_lane);
        placed.insert(part.name());
    }
    finish(g, block, placed);
}

}  // namespace

void windows(Group &g, const Machine &m) {
    Func sum = g.anchor;
    if (!sum.has_update_definition() || sum.name() == g.out.name() || sum.dimensions() != 4 || g.extents.size() != 4 ||
        sum.rvars().size() != 3 || !g.prologue.empty() || shown_elsewhere(g) || g.extent(0) % 4)
        return sum_in_thread(g, m);
    const Func read = image_of(g);
    if (!read.defined()) return sum_in_thread(g, m);
    if (g.form == Form::d_parameter) return weight(g, read);
    return g.in_place ? sum_in_thread(g, m) : image(g, read);
}

}  // namespace cryolite::gpu
