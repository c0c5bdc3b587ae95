#pragma once
// Runs a kernel of a step by itself, with or without its loop schedule.

#include <functional>
#include <set>

#include "generators/codegen/compare.h"
#include "tests/support/step.h"

namespace cryolite::test {

/// Whether a kernel computes dX of a product.
inline bool computes_dx(const StepProgram &p, const ir::Kernel &k) {
    auto *g = k.anchor ? ir::as<ir::InputGrad>(p.ops[k.anchor]) : nullptr;
    return g && p.layer(g->call).product;
}

/// The farthest that an element of an output lies from that of the unscheduled kernel, relative to the largest of its
/// array. Builds Funcs: in a child.
template <typename M> double distance_to_unscheduled(const Compiled<M> &c, KernelId kernel, std::string &loops) {
    const ir::Kernel &k = c.program.kernels[kernel];
    BuiltKernel built = build_kernel(c.program, k, c.machine);
    if (!built.automatic_keys.empty()) apply_automatic(built, c.step, c.machine);
    loops = built.loops;
    std::string got = KernelTrial(c.program, k, built, c.machine, false).run();
    return distance(built, KernelTrial::unscheduled(c.program, k, c.machine).run(), got);
}

/// Checks every distinct kernel of a step against its unscheduled self; those that this process has
/// checked before are not checked again, nor those that `asked` leaves out.
template <typename M>
void check_kernels(const Compiled<M> &c, double tolerance = 3e-5,
                   const std::function<bool(const StepProgram &, const ir::Kernel &)> &asked = nullptr) {
    static std::set<std::string> seen;
    std::vector<std::string> keys = c.keys();
    std::vector<KernelId> list;
    for (KernelId k : c.program.kernels.ids())
        if ((!asked || asked(c.program, c.program.kernels[k])) && seen.insert(keys[size_t(k.index)]).second)
            list.push_back(k);
    if (asked) CHECK(list.size() > 0);
    if (!list.empty()) share_jit_runtime();
    run_children(
        int(list.size()), 2, 300,
        [&](int i) {
            std::string loops;
            double d = distance_to_unscheduled(c, list[i], loops);
            return fmt::format("{} {}", d, loops);
        },
        [&](int i, const ChildResult &r) {
            INFO(c.program.kernels[list[i]].name);
            INFO(r.output);
            INFO(r.error);
            CHECK(r.error == "");
            CHECK(std::atof(r.output.c_str()) < tolerance);
        });
}

}  // namespace cryolite::test
