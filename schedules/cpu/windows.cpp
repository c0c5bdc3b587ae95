// Convolutions, pools and norms of images: channels across the lanes, a row of the image in registers, an image a task.

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

namespace {

/// A weight's gradient: a task is one place of the window, its lanes the output channels.
void window_weight(Group &g, const Machine &m) {
    const int lanes = lanes_within(g.extent(0), m);
    std::vector<Var> v = g.out.args();
    Var place("place"), lane("lane");
    g.store().fuse(v[2], v[3], place).parallel(place);
    g.store().vectorize(v[0], lanes, g.in_place ? TailStrategy::GuardWithIf : TailStrategy::Auto);
    Func dW = g.anchor;
    dW.compute_at(g.out, v[1]);
    Var o = dW.args()[0];
    dW.vectorize(o, lanes, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {lane, o};
    for (const RVar &k : dW.rvars()) order.push_back(k);
    dW.update().split(o, o, lane, lanes, TailStrategy::GuardWithIf).reorder(order).vectorize(lane);
}

/// The numbers of each group of channels and each image: f(group, image), an image a task, channels across lanes.
void group_numbers(Group &g, const Machine &m) {
    for (Func &f : g.funcs()) {
        if (f.dimensions() != 2) continue;
        f.compute_root();
        Var group = f.args()[0], image = f.args()[1], lane("lane");
        if (!f.has_update_definition()) continue;
        f.parallel(image).update().parallel(image);
        if (reduction_extent(f) == 1) continue;
        const int lanes = lanes_within(reduction_extent(f), m);
        Func part = f.update().rfactor(f.rvars()[0], lane);
        part.compute_at(f, group).vectorize(lane, lanes, TailStrategy::GuardWithIf);
        part.update()
            .reorder({lane, part.rvars()[0], part.rvars()[1]})
            .vectorize(lane, lanes, TailStrategy::GuardWithIf);
    }
}

}  // namespace

void group_norm(Group &g, const Machine &m) {
    group_numbers(g, m);
    pointwise(g, m);
}

void sum_normalised_images(Group &g, const Machine &m) {
    group_numbers(g, m);
    sum_rows(g, m);
}

void windows(Group &g, const Machine &m) {
    if (!g.anchor.has_update_definition()) return pointwise(g, m);
    if (g.form == Form::d_parameter) return window_weight(g, m);
    if (g.out.args().size() < 4) return sum_rows(g, m);  // the mean of an image
    const int lanes = lanes_within(g.extent(0), m);
    std::vector<Var> v = g.out.args();
    g.out.parallel(v[3]).vectorize(v[0], lanes, TailStrategy::GuardWithIf);
    Func y = g.anchor;
    Var o = y.args()[0], u = y.args()[1], lane("lane");
    y.compute_at(g.out, v[2]).vectorize(o, lanes, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {lane, u, o};
    for (const RVar &k : y.rvars()) order.push_back(k);
    y.update().split(o, o, lane, lanes, TailStrategy::GuardWithIf).reorder(order).vectorize(lane);
}

}  // namespace cryolite::cpu
