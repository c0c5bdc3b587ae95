#pragma once
// Runs a kernel of a step by itself, with or without its loop schedule.

#include <functional>
#include <set>

#include "generators/codegen/compare.h"
#include "schedules/cpu/loops.h"
#include "schedules/table.h"
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

/// The kernels of a step, of equal ones the first.
template <typename M> std::vector<KernelId> distinct_kernels(const Compiled<M> &c) {
    std::set<std::string> seen;
    const std::vector<std::string> keys = c.keys();
    std::vector<KernelId> list;
    for (KernelId k : c.program.kernels.ids())
        if (seen.insert(keys[size_t(k.index)]).second) list.push_back(k);
    return list;
}

/// Checks the loops that serve any kernel, on every distinct kernel of a step that does not update in place, with these
/// numbers.
template <typename M>
void check_tiled(const Compiled<M> &c, const std::map<std::string, int> &numbers = {}, double tolerance = 1e-4) {
    const std::vector<KernelId> list = distinct_kernels(c);
    share_jit_runtime();
    int tiled = 0;
    run_children(
        int(list.size()), 2, 300,
        [&](int i) -> std::string {
            const ir::Kernel &k = c.program.kernels[list[size_t(i)]];
            BuiltKernel built = build_kernel(c.program, k, c.machine, {.scheduled = false});
            if (built.group.in_place) return "in place";
            for (const auto &[name, value] : numbers) built.group.tunables.given[name] = {value, "test"};
            share_numbers(built.group, c.machine);
            cpu::tiled(built.group, c.machine);
            KernelTrial trial(c.program, k, built, c.machine, false);
            const std::string got = trial.run();
            if (got != trial.run(Inputs::random, true)) return "its result is not the same when it is run again";
            return fmt::format("{}", distance(built, KernelTrial::unscheduled(c.program, k, c.machine).run(), got));
        },
        [&](int i, const ChildResult &r) {
            INFO(c.program.kernels[list[size_t(i)]].name);
            INFO(r.output);
            CHECK(r.error == "");
            if (r.output == "in place") return;
            CHECK(r.output.find_first_not_of("0123456789.e-") == std::string::npos);
            CHECK(!r.output.empty());
            CHECK(std::atof(r.output.c_str()) < tolerance);
            tiled++;
        });
    CHECK(tiled > 0);
}

}  // namespace cryolite::test
