// Groups of parameters with a rate or decay of their own. Each group has its own copy of the step's scalars, which the
// same update kernels read.

#include <algorithm>
#include <tuple>

#include <fmt/ranges.h>

#include "generators/passes/near_names.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

class GroupParameters {
public:
    GroupParameters(StepProgram &p, const Context &cx) : p(p), cx(cx), settings(size_t(p.parameters.size())) {}

    void run() {
        if (cx.options.param_groups.empty()) return;
        for (const ParamGroup &g : cx.options.param_groups) apply(g);
        p.groups = {{}};
        for (ParamId w : p.parameters.ids()) p.parameters[w].group = group_of(settings[size_t(w.index)]);
        if (p.groups.size() == 1) p.groups.clear();
    }

private:
    StepProgram &p;
    const Context &cx;
    std::vector<ir::ParamGroup> settings;  ///< by parameter

    [[noreturn]] static void refuse(const ParamGroup &g, const std::string &why) {
        throw UsageError(fmt::format("the group of parameters '{}' {}", g.text, why));
    }
    /// Later groups win, setting by setting.
    void apply(const ParamGroup &g) {
        check_scalar(g, g.lr, "lr"), check_scalar(g, g.decay, "weight-decay");
        int met = 0, decay = 0;
        for (ParamId w : p.parameters.ids()) {
            if (!g.matches(p.parameters[w].path)) continue;
            ir::ParamGroup &of = settings[size_t(w.index)];
            if (g.lr) of.lr = g.lr;
            if (g.decay) of.decay = g.decay;
            of.texts.push_back(g.text);
            met++, decay += p.parameters[w].shape.rank() > 1;
        }
        if (!met)
            refuse(g, fmt::format("matches no parameter; the nearest are {}",
                                  fmt::join(near_names(p, g.pattern + "*"), ", ")));
        if (g.decay && g.decay->value > 0 && !decay)
            refuse(g, "sets a decay, but all that it matches are biases or gains, which do not decay");
    }
    void check_scalar(const ParamGroup &g, const std::optional<GroupValue> &value, const std::string &scalar) const {
        const auto &scalars = cx.optimizer.scalars();
        if (value && std::ranges::none_of(scalars, [&](const Scalar *s) { return s->name == scalar; }))
            refuse(g, fmt::format("sets what the optimizer '{}' does not have: {}", cx.optimizer.name(), scalar));
    }
    int group_of(const ir::ParamGroup &of) {
        const auto key = [](const ir::ParamGroup &g) { return std::tie(g.lr, g.decay); };
        const size_t at =
            size_t(std::ranges::find_if(p.groups, [&](const ir::ParamGroup &g) { return key(g) == key(of); }) -
                   p.groups.begin());
        if (at == p.groups.size()) p.groups.push_back(of);
        return int(at);
    }
};

}  // namespace

void group_parameters(StepProgram &p, const Context &cx) { GroupParameters(p, cx).run(); }

}  // namespace cryolite::compiler
