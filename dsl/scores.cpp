#include "dsl/scores.h"

#include <algorithm>

namespace cryolite {

namespace {

/// The value that the loss of this path compares with the targets; -1: not known.
int scores_of(const Graph &g, const std::string &loss, int targets) {
    for (const Graph::Call &c : g.calls())
        if (c.layer->path == loss && std::ranges::count(c.inputs, targets)) return c.inputs[0];
    return -1;
}

}  // namespace

void check_scores(const Model &model, const Graph &g, int targets) {
    const auto *text = dynamic_cast<const TextModel *>(&model);
    const auto *classifier = dynamic_cast<const Classifier *>(&model);
    if (!text && !classifier) return;
    const int all = text ? int(text->vocab) : int(classifier->classes);
    for (const Graph::Ids &ids : g.ids()) {
        const int scores =
            ids.value == targets && ids.classes > 0 && ids.classes < all ? scores_of(g, ids.loss, targets) : -1;
        if (scores < 0) continue;
        fail("[{}] makes the scores that '{}' reads, {} for each row, but {}: forward() may have forgotten its head, "
             "such as "
             "{}",
             g.values()[size_t(scores)].name, ids.loss, ids.classes,
             text ? fmt::format("the vocabulary has {} tokens (--vocab)", all)
                  : fmt::format("there are {} classes (--classes)", all),
             text ? "head(x) of a Linear head{\"head\", width, vocab}, or token.transposed(x)"
                  : "head(x) of a Linear head{\"head\", width, classes}");
    }
}

}  // namespace cryolite
