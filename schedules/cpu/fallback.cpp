// Kernels whose layer has no loop schedule: an autoscheduler, or plain loops where none can help.

#include "schedules/cpu/fallback.h"

#include <dlfcn.h>

#include <cctype>
#include <filesystem>

#include "bundle/error.h"
#include "schedules/cpu/idioms.h"

namespace cryolite {

using namespace Halide;

namespace {

/// The autoschedulers lie beside libHalide.
std::string plugin(std::string name) {
    Dl_info info;
    auto *symbol = reinterpret_cast<void *>(&get_host_target);
    if (!dladdr(symbol, &info)) fail("cannot find libHalide's folder, so no autoscheduler can be loaded");
    for (char &c : name) c = char(std::tolower(c));
    return (std::filesystem::path(info.dli_fname).parent_path() / ("libautoschedule_" + name + ".so")).string();
}

void autoschedule(const AutomaticLoops &way, Group &, Pipeline &pipeline, const Machine &m) {
    load_plugin(plugin(way.name));
    AutoschedulerParams params(way.name);
    for (auto &[name, value] : way.parameters) params.extra[name] = value;
    pipeline.apply_autoscheduler(m.target, params);
}

/// The number of cores shapes the loops only: a kernel runs on any number of threads.
AutomaticLoops adams2019(const std::string &beam) {
    return {"Adams2019", {{"parallelism", "16"}, {"beam_size", beam}}, autoschedule};
}

/// Whether the update of f computes each element by itself.
bool updates_each_element(const Func &f) {
    return at_own_indices(f.function(), f.function().update(0)) && f.rvars(0).empty();
}

}  // namespace

std::vector<AutomaticLoops> automatic_loops() {
    // With a beam of one, a kernel takes seconds to schedule, not minutes.
    return {adams2019("1"),
            {"Mullapudi2016", {{"parallelism", "16"}}, autoschedule},
            {"plain loops",
             {{"version", "1"}},  // to be raised when plain_loops() changes: it is in the keys of cached kernels
             [](const AutomaticLoops &, Group &g, Pipeline &, const Machine &m) { plain_loops(g, m); }}};
}

std::vector<AutomaticLoops> wider_automatic_loops() { return {adams2019("4"), adams2019("32")}; }

const std::vector<std::string> &automatic_names() {
    static const std::vector<std::string> names = {"written",         "adams2019",        "mullapudi2016", "plain",
                                                   "adams2019_beam4", "adams2019_beam32", "tiled"};
    return names;
}

void plain_loops(Group &g, const Machine &m) {
    for (Func &f : g.funcs()) {
        if (f.dimensions() == 0 || !f.has_update_definition()) continue;
        f.compute_root();
        if (f.args().size() > 1) f.parallel(f.args().back());
    }
    Stage s = g.store();
    Var inner = g.out.args()[0];
    if (g.extents.size() > 1 && g.extents.back() > 1 && !g.in_place) g.out.parallel(g.out.args().back());
    if (!g.in_place && g.extents[0] >= m.vector) s.vectorize(inner, m.vector, TailStrategy::ShiftInwards);
    if (g.in_place && updates_each_element(g.out)) {
        s.vectorize(inner, cpu::lanes_within(g.extents[0], m), TailStrategy::GuardWithIf);
        if (g.extents.size() < 2) return;
        const Var last = g.out.args().back(), task("task");
        const int rows = cpu::items_per_task(g.extents.back(), 1, 4 * g.extents[0]);
        s.split(last, task, last, rows, TailStrategy::GuardWithIf).parallel(task);
    }
}

}  // namespace cryolite
