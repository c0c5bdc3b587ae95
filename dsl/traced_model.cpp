#include "dsl/traced_model.h"

namespace cryolite {

TracedModel traced(Model &model) {
    TracedModel m;
    const Tensor x = model.input(m.graph), targets = model.targets(m.graph);
    const Tensor y = model.forward(x), loss = model.loss(y, targets);
    m.graph.check_layers_live();
    m.input = x.id(), m.targets = targets.id(), m.output = y.id(), m.loss = loss.id();
    return m;
}

}  // namespace cryolite
