// The arrays that outlive a step: parameters in the layouts that the schedule chooses, their gradients, the optimizer's
// state; and the scalars that a step reads and reports.

#include <algorithm>

#include "bundle/loss_scale.h"
#include "generators/passes/pipeline.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

/// Checks the layout of a table whose rows are looked up. `source`: where the layout was chosen. Errors: a row of the
/// table would lie in several panels.
void check_rows(const StepProgram &p, ParamId id, const Layout &layout, const std::string &source) {
    if (layout.row_major() || layout.dim != 0 || p.parameters[id].shape.rank() != 2) return;
    for (CallId c : p.calls.ids()) {
        const ir::Layer &layer = p.layer(c);
        if (layer.scatters && std::ranges::count(layer.parameters, id))
            fail("{3}: s.layout({0}, panels({1}, 0)) is refused: [{2}] adds gradients to rows of it, and a row has to "
                 "lie in one panel; the nearest legal line is s.layout({0}, panels({1}, 1))",
                 p.parameters[id].path, layout.panel, layer.path, source);
    }
}

void declare(StepProgram &p, const Context &cx, ParamId id) {
    ir::Parameter &w = p.parameters[id];
    const Parameter *source = &p.source(id);
    const auto line = cx.schedule.layouts.find(source);
    const bool chosen = !w.state && line != cx.schedule.layouts.end();
    const Layout layout = w.state  ? row_major()
                          : chosen ? line->second.layout
                                   : default_layout(p.graph, *source, cx.schedule.machine);
    check_rows(p, id, layout, chosen ? line->second.source : "the default layout");
    auto add = [&](const std::string &name, ir::Role role, ir::DataType type = ir::float32, int worker = -1) {
        return p.values.add({.name = name,
                             .role = role,
                             .type = type,
                             .shape = w.shape,
                             .layout = layout,
                             .parameter = id,
                             .worker = worker});
    };
    w.value = add(w.path, ir::Role::parameter, w.narrow ? data_type(storage_type(p.format)) : ir::float32);
    p.values[w.value].format_why = w.format_why;
    if (w.trained()) {
        w.gradient = add(w.path, ir::Role::gradient);
        for (const State *s : cx.optimizer.states()) w.states.push_back(add(w.path + "." + s->name, ir::Role::state));
        // Updates add the workers' gradients where they can read them. Where a norm of the sum must be known first, the
        // sum is stored for that, and the update reads it. A GPU cannot read the gradients of other GPUs.
        const bool seen = p.workers > 1 && !p.parts && !cx.takes_norms(p) && !cx.schedule.machine.gpu();
        for (int worker = 0; seen && worker < p.workers; worker++)
            w.shares.push_back(add(w.path, ir::Role::share, ir::float32, worker));
        for (int level = 0; p.workers << level < p.parts; level++)
            p.values[add(w.path, ir::Role::partial)].level = level;
    } else if (!w.state) {
        const int64_t each = layout.storage(w.shape).size() * ir::float32.bytes();
        p.spared.state_bytes += each * int64_t(cx.optimizer.states().size()), p.spared.gradient_bytes += each;
    }
    // The master keeps all bits of a weight of which products read 16 bits.
    const MasterKind master = w.narrow ? row_of(p.format).master : MasterKind::none;
    if (master == MasterKind::low_half) w.master = add(w.path + ".master_low", ir::Role::master_low, ir::uint16);
    if (master == MasterKind::whole) w.master = add(w.path + ".master", ir::Role::master, ir::float32);
}

/// Adds the scale of the loss and its counters, for formats in which adjoints would be too small.
void declare_loss_scaler(StepProgram &p) {
    auto add = [&](const char *name, ir::DataType type) {
        return p.values.add({.name = name, .role = ir::Role::loss_scaler, .type = type, .shape = {1}});
    };
    p.loss_scaler = {add("loss_scale", ir::float32), add("good_steps", ir::int32), add("low_steps", ir::int32)};
}

void declare_scalars(StepProgram &p, const Context &cx) {
    p.scalar_names = {"step", "loss_scale", "clip"};
    p.scalar_values = {1, 1, 0};
    // Without the check for overflow nothing would lower the scale.
    const bool scaled = p.guarded && row_of(p.format).scales_loss;
    if (scaled)
        for (const LossScaleNumber &n : loss_scale_numbers)
            p.scalar_names.push_back(n.name), p.scalar_values.push_back(n.value);
    for (const Scalar *s : cx.optimizer.scalars())
        p.scalar_names.push_back(s->name), p.scalar_values.push_back(s->value);
    const int each = int(p.scalar_names.size()),
              apart = std::max(64, cx.schedule.machine.alignment) / int(sizeof(double));
    p.scalars_apart = (each + apart - 1) / apart * apart;
    const int scalars = p.groups.empty() ? each : int(p.groups.size()) * p.scalars_apart;
    auto add = [&](const std::string &name, ir::Role role, ir::DataType type, int n) {
        return p.values.add({.name = name, .role = role, .type = type, .shape = {n}});
    };
    p.scalars = add("scalars", ir::Role::scalars, ir::float64, scalars);
    p.norms = add("norms", ir::Role::norms, ir::float64, p.parameters.size());
    p.scale = add("scale", ir::Role::scale, ir::float32, p.guarded ? 2 : 1);
    if (p.guarded) p.count = add("count", ir::Role::count, ir::int32, 2);
    if (scaled) declare_loss_scaler(p);
}

}  // namespace

void declare_state(StepProgram &p, const Context &cx) {
    std::set<std::string> names;
    for (ParamId w : p.parameters.ids()) {
        if (!names.insert(p.parameters[w].path).second)
            fail("two parameters are named {}: give their layers different paths", p.parameters[w].path);
        declare(p, cx, w);
    }
    declare_scalars(p, cx);
    for (ir::Op &op : p.ops) op.reads = offered(p, op);
    if (cx.sized) cx.sized(p);
}

}  // namespace cryolite::compiler
