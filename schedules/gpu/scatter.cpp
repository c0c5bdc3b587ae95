// Sums into rows of a table, such as the gradient of an embedding: f(c, row(m)) += g(c, m).

#include <algorithm>

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

constexpr int classes = 64;

/// Adds a loop over classes of rows around the terms m: those with row(m) % classes == k belong to class k. No two
/// classes have a row in common, so threads of their own add them, each row in the order of its terms.
void by_classes(Func f, const Expr &row) {
    Internal::Definition &d = f.function().update();
    const std::string k = "class";
    d.predicate() = row % classes == Internal::Variable::make(Halide::Int(32), k);
    d.schedule().rvars().push_back({k, 0, classes});
    std::vector<Internal::Dim> &loops = d.schedule().dims();
    loops.insert(loops.end() - 1, Internal::Dim{k, Internal::ForType::Serial, Halide::DeviceAPI::None,
                                                Internal::DimType::PureRVar, Halide::Partition::Auto});
}

}  // namespace

void scatter(Group &g, const Machine &m) {
    Func f = g.out;
    if (f.num_update_definitions() != 1 || f.dimensions() != 2 || f.rvars().size() != 1 ||
        !Internal::is_const_one(f.function().update().predicate()))
        return plain_loops(g, m);
    const Expr row = f.update_args()[1];
    const auto *c = f.update_args()[0].as<Internal::Variable>();
    if (!c || c->name != f.args()[0].name() || row.as<Internal::Variable>() || reduction_extent(f) < classes)
        return plain_loops(g, m);
    Placed placed;
    element_each(f);
    by_classes(f, row);
    Var channel = f.args()[0], block("block"), thread("thread");
    RVar term = f.rvars()[0], of_class("class");
    f.update()
        .split(channel, block, thread, std::min(block_threads, g.extent(0)), TailStrategy::GuardWithIf)
        .reorder({term, thread, block, of_class})
        .gpu_threads(thread)
        .gpu_blocks(block, of_class);
    finish(g, block, placed);
}

}  // namespace cryolite::gpu
