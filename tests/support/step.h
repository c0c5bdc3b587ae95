#pragma once
// A model taken through the generator, as far as a test asks.

#include <functional>

#include "dsl/optimizers/adamw.h"
#include "generators/codegen/compile.h"
#include "generators/driver/trials/choose_lines.h"
#include "generators/driver/oracles/nature_oracle.h"
#include "generators/driver/oracles/reads_oracle.h"
#include "generators/passes/pipeline.h"
#include "schedules/lines.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

/// That of the host's kernels, with these features of a device.
inline Halide::Target test_target(const std::vector<Halide::Target::Feature> &device = {}) {
    Halide::Target t("host");
    for (auto f : {Halide::Target::NoRuntime, Halide::Target::UserContext, Halide::Target::NoAsserts,
                   Halide::Target::NoBoundsQuery})
        t.set_feature(f);
    for (auto f : device) t.set_feature(f);
    return t;
}

template <typename M, typename Rule = AdamW> class Compiled {
public:
    using Schedule = std::function<void(M &, Step &)>;

    /// The step of a model with these arguments, {{"layers", "2"}, ...}, after all passes.
    explicit Compiled(std::vector<std::pair<std::string, std::string>> arguments, Schedule schedule = {},
                      StepOptions options = {}, Format format = fp32, const Halide::Target &target = test_target())
        : machine(Machine::of(target)), step(machine) {
        step.dialect_of_products = options.dialect;
        Arguments::current() = {std::move(arguments), {}};
        model = std::make_unique<M>();
        model->numerics(format);
        KnownLayers known;
        Context cx{.model = *model,
                   .optimizer = optimizer,
                   .schedule = step,
                   .options = options,
                   .oracle = reads_by_building(machine, 2, 60),
                   .natures = natures_by_building(2, 60),
                   .products = products_by_building(2, 60),
                   .known = &known};
        try {
            if (schedule) schedule(*model, step);
            cx.options.views = false;
            if (step.chooses) choose_lines(step, [&] { return lower(cx); });
            cx.options.views = options.views;
            program = lower(cx);
        } catch (const Error &e) {
            check_nearest(e.what(), [&] { lower(cx); });
            throw;
        }
    }

    /// The kernel that holds the operation of this name in an entry; none: no kernel does.
    KernelId kernel(const std::string &entry, const std::string &name) const {
        for (OpId id : program.entries.at(entry).ops)
            if (program.ops[id].name == name) return program.ops[id].kernel;
        return {};
    }
    /// The keys of all kernels, without compiling them.
    std::vector<std::string> keys() const {
        std::vector<std::string> list(size_t(program.kernels.size()));
        run_children(
            int(list.size()), 2, 60,
            [&](int k) { return build_kernel(program, program.kernels[KernelId(k)], machine).key; },
            [&](int k, const ChildResult &r) {
                if (!r.error.empty()) fail("{}: {}", program.kernels[KernelId(k)].name, r.error);
                list[k] = r.output;
            });
        return list;
    }

    Machine machine;
    Step step;
    Rule optimizer;
    std::unique_ptr<M> model;
    StepProgram program;

private:
    /// The line that a refusal calls the nearest legal one can be read, and is not refused in its turn.
    void check_nearest(const std::string &refused, const std::function<void()> &lower_again) {
        constexpr std::string_view words = "the nearest legal line is ";
        const size_t at = refused.rfind(words);
        if (at == std::string::npos) return;
        add_lines(step, *model, refused.substr(at + words.size()), "nearest");
        try {
            lower_again();
        } catch (const Error &e) {
            if (std::string(e.what()).starts_with("nearest:")) fail("the nearest legal line is none: {}", e.what());
        }
    }
};

/// The array of a parameter's gradient.
inline const ir::Value &gradient_of(const StepProgram &p, const Parameter &w) {
    return p.values[p.parameters[p.parameter_ids.at(&w)].gradient];
}

}  // namespace cryolite::test
