#include "schedules/automatic.h"

#include <dlfcn.h>

#include <cctype>
#include <filesystem>

#include "bundle/error.h"
#include "schedules/table.h"

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

void autoschedule(const AutomaticLoops &way, Group &g, Pipeline &pipeline, const Machine &m) {
    load_plugin(plugin(way.name));
    AutoschedulerParams params(way.name);
    for (auto &[name, value] : way.parameters) params.extra[name] = value;
    pipeline.apply_autoscheduler(m.target, params);
    for (const Func &f : g.funcs())
        for (const Internal::Definition &update : f.function().updates())
            if (update.schedule().atomic())
                fail("its threads add to one element of {} in an order that changes from run to run", f.name());
}

/// The number of cores shapes the loops only: a kernel runs on any number of threads.
AutomaticLoops adams2019(const std::string &beam) {
    return {"Adams2019", {{"parallelism", "16"}, {"beam_size", beam}}, autoschedule};
}

/// The number of multiprocessors shapes the loops only.
AutomaticLoops anderson2021(const std::string &beam) {
    return {"Anderson2021", {{"parallelism", "80"}, {"beam_size", beam}}, autoschedule};
}

AutomaticLoops plain() {
    return {"plain loops",
            {{"version", "1"}},  // to be raised when plain loops change: it is in the keys of cached kernels
            [](const AutomaticLoops &, Group &g, Pipeline &, const Machine &m) { plain_loops(g, m); }};
}

}  // namespace

std::vector<AutomaticLoops> automatic_loops(const Machine &m) {
    // With a beam of one, a kernel takes seconds to schedule, not minutes.
    if (m.gpu()) return {anderson2021("1"), {"Li2018", {{"parallelism", "16"}}, autoschedule}, plain()};
    return {adams2019("1"), {"Mullapudi2016", {{"parallelism", "16"}}, autoschedule}, plain()};
}

std::vector<AutomaticLoops> wider_automatic_loops(const Machine &m) {
    if (m.gpu()) return {anderson2021("4"), anderson2021("32")};
    return {adams2019("4"), adams2019("32")};
}

const std::vector<std::string> &automatic_names(const Machine &m) {
    static const std::vector<std::string> of_cpu = {"written",         "adams2019",        "mullapudi2016", "plain",
                                                    "adams2019_beam4", "adams2019_beam32", "tiled"},
                                          of_gpu = {"written", "anderson2021",       "li2018",
                                                    "plain",   "anderson2021_beam4", "anderson2021_beam32"};
    return m.gpu() ? of_gpu : of_cpu;
}

}  // namespace cryolite
