#include "generators/driver/describe.h"

#include <nlohmann/json.hpp>
#include <set>

#include "dsl/traced_model.h"

namespace cryolite::compiler {

namespace {

/// Elements of one example of a batch, which is the outermost dimension.
int64_t per_example(const Tensor &t) {
    const Shape &s = t.shape();
    return s.rank() ? s.with(s.rank() - 1, 1).size() : 1;
}

}  // namespace

std::string description_of(const ProgramInfo &info, Model &model, const decltype(ProgramInfo::optimizers) &rules) {
    Graph g;
    const Tensor targets = model.targets(g);
    const bool rows = model.task() == "features", numbers = targets.type().is_float();
    ProgramDescription d{.name = info.name,
                         .task = model.task(),
                         .targets = numbers ? "numbers" : "classes",
                         .columns = rows ? per_example(model.input(g)) : 0,
                         .outputs = numbers ? per_example(targets) : 0,
                         .optimizer = info.optimizer,
                         .presets = info.presets,
                         .weights = info.weights,
                         .peer = info.peer,
                         .data = info.data};
    for (const auto &[name, make] : rules) {
        d.optimizers.push_back({name, {}});
        const std::unique_ptr<Optimizer> rule = make();
        for (const Scalar *s : rule->scalars())
            d.optimizers.back().numbers.push_back({s->name, s->value, s->range, s->help});
    }
    for (const Arguments::Known &k : Arguments::current().known) d.params.push_back({k.name, k.type, k.value, k.help});
    return description_json(d);
}

std::string weights_of(Model &model) {
    const TracedModel traced_model = traced(model);
    std::set<const Parameter *> seen;
    nlohmann::json weights = nlohmann::json::array();
    for (const Graph::Call &c : traced_model.graph.calls())
        for (const Parameter *w : c.layer->parameters()) {
            if (!seen.insert(w).second) continue;
            const std::vector<int> extents = w->shape().extents();
            weights.push_back({{"name", w->path()}, {"shape", std::vector<int>(extents.rbegin(), extents.rend())}});
        }
    return weights.dump();
}

}  // namespace cryolite::compiler
