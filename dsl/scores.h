#pragma once
// Whether a model makes a score for each thing that its targets may be.

#include "dsl/model.h"

namespace cryolite {

/// Refuses a cross-entropy of a text model's or a classifier's own targets that reads fewer scores than there are
/// tokens in the vocabulary, or classes: a target that has none would end the run. The layer that made them is named.
/// More than that may be meant, as a vocabulary that is padded. `targets`: the value of the graph that holds them.
void check_scores(const Model &model, const Graph &g, int targets);

}  // namespace cryolite
