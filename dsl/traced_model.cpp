#include "dsl/traced_model.h"

#include "dsl/layers/embedding.h"

namespace cryolite {

namespace {

/// Refuses tables that have no row for some tokens: ids are clamped to the table's.
void check_tables(const TextModel &model, const Graph &graph, int tokens) {
    for (const Graph::Call &call : graph.calls()) {
        const auto *table = dynamic_cast<const Embedding *>(call.layer);
        if (!table || call.inputs[0] != tokens || table->vocab >= model.vocab) continue;
        fail("[{}] has a table of {} rows, but tokens are numbered 0 to {}: expected vocab, {}", table->path,
             table->vocab, int(model.vocab) - 1, int(model.vocab));
    }
}

}  // namespace

TracedModel traced(Model &model) {
    TracedModel m;
    const Tensor x = model.input(m.graph), targets = model.targets(m.graph);
    const Tensor y = model.forward(x), loss = model.loss(y, targets);
    m.graph.check_layers_live();
    if (const auto *text = dynamic_cast<const TextModel *>(&model)) check_tables(*text, m.graph, x.id());
    m.input = x.id(), m.targets = targets.id(), m.output = y.id(), m.loss = loss.id();
    return m;
}

}  // namespace cryolite
