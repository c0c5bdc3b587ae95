#pragma once
// A model taken through the generator, as far as a test asks.

#include <functional>

#include "dsl/optimizers/adamw.h"
#include "generators/compile.h"
#include "generators/memory_plan.h"
#include "generators/partition.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

/// That of the host's kernels, with these features of a device.
inline Halide::Target test_target(const std::vector<Halide::Target::Feature> &device = {}) {
    Halide::Target t("host");
    for (auto f : {Halide::Target::NoRuntime, Halide::Target::UserContext,
                   Halide::Target::NoAsserts, Halide::Target::NoBoundsQuery})
        t.set_feature(f);
    for (auto f : device) t.set_feature(f);
    return t;
}

template <typename M, typename Rule = AdamW>
class Compiled {
public:
    using Schedule = std::function<void(M &, Step &)>;

    /// Builds and partitions the step of a model with these arguments: {{"layers", "2"}, ...}.
    explicit Compiled(std::vector<std::pair<std::string, std::string>> arguments,
                      Schedule schedule = {}, StepOptions options = {}, Format format = fp32,
                      const Halide::Target &target = test_target())
        : machine(Machine::of(target)), step(machine) {
        Arguments::current() = {std::move(arguments), {}};
        model = std::make_unique<M>();
        model->numerics(format);
        if (schedule) schedule(*model, step);
        build_step(program, *model, optimizer, options, step);
        analyse(program, machine, 2, 60);
        partition(program, options);
    }

    /// The kernel that holds the stage of this name in a plan; -1: none does.
    int kernel(const std::string &plan, const std::string &stage) const {
        for (int k : program.plans.at(plan))
            for (int s : program.kernels[k].stages)
                if (program.stages[s].name == stage) return k;
        return -1;
    }
    /// The keys of all kernels, without compiling them.
    std::vector<std::string> keys() const {
        std::vector<std::string> list(program.kernels.size());
        run_children(
            int(list.size()), 2, 60,
            [&](int k) { return build_kernel(program, program.kernels[k], machine).key; },
            [&](int k, const ChildResult &r) {
                if (!r.error.empty()) fail("{}: {}", program.kernels[k].name, r.error);
                list[k] = r.output;
            });
        return list;
    }

    Machine machine;
    Step step;
    Rule optimizer;
    std::unique_ptr<M> model;
    StepProgram program;
};

}  // namespace cryolite::test
