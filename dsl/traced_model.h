#pragma once
// What a model calls, from its input to its loss.

#include "dsl/model.h"

namespace cryolite {

/// Values are by their numbers in the graph.
struct TracedModel {
    Graph graph;
    int input, targets, output, loss;
};
/// Errors: a layer that was called is gone by the end, and what layers refuse.
TracedModel traced(Model &model);

}  // namespace cryolite
