#pragma once
// Whether a model computes a score for each token or class that may be a target.

#include "dsl/model.h"

namespace cryolite {

/// Errors: in a text model or a classifier, a cross-entropy of the model's targets reads fewer scores than there are
/// tokens in the vocabulary, or classes. A target without a score would end the run. The error names the layer that
/// made the scores. More scores are legal: a vocabulary may be padded. `targets`: the graph's value that holds them.
void check_scores(const Model &model, const Graph &g, int targets);

}  // namespace cryolite
