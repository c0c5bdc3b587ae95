// Kernels whose layer has no loop schedule: an autoscheduler, or plain loops where it cannot help.

#include "schedules/cpu/fallback.h"

#include <dlfcn.h>

#include <filesystem>

#include "dsl/error.h"

namespace cryolite {

using namespace Halide;

namespace {

/// The autoschedulers lie beside libHalide.
std::string plugin(const std::string &name) {
    Dl_info info;
    auto *symbol = reinterpret_cast<void *>(&get_host_target);
    if (!dladdr(symbol, &info)) fail("cannot find libHalide's folder, so no autoscheduler can be loaded");
    return (std::filesystem::path(info.dli_fname).parent_path() / ("libautoschedule_" + name + ".so")).string();
}

}  // namespace

std::string autoschedule(Pipeline &pipeline, const Machine &m) {
    load_plugin(plugin("adams2019"));
    // A beam of one: seconds a kernel, not minutes. The number of cores shapes the loops only: a kernel runs on any number of threads.
    pipeline.apply_autoscheduler(m.target, AutoschedulerParams("Adams2019", {{"parallelism", "16"}, {"beam_size", "1"}}));
    return "autoscheduler";
}

std::string plain_loops(Group &g, const Machine &m) {
    for (Func &f : g.funcs()) {
        if (f.dimensions() == 0 || !f.has_update_definition()) continue;
        f.compute_root();
        if (f.args().size() > 1) f.parallel(f.args().back());
    }
    Stage s = g.store();
    Var inner = g.out.args()[0];
    if (g.extents.size() > 1 && g.extents.back() > 1 && !g.in_place) g.out.parallel(g.out.args().back());
    if (!g.in_place && g.extents[0] >= m.vector) s.vectorize(inner, m.vector, TailStrategy::ShiftInwards);
    return "plain loops";
}

}  // namespace cryolite
