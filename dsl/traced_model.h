#pragma once
// The trace of a model, from its input to its loss.

#include "dsl/model.h"

namespace cryolite {

/// A graph, and the numbers of the model's values in it.
struct TracedModel {
    Graph graph;
    int input, targets, output, loss;
};
/// Traces a model once. Errors: a layer that was called has been destroyed by the end, and all that layers refuse.
TracedModel traced(Model &model);

}  // namespace cryolite
