#include "runtime/train/row_weights.h"

#include <algorithm>

namespace cryolite {

RowWeights::RowWeights(const Plan &plan) : plan_(plan), sums_(plan.ids.size()), added_(plan.ids.size()) {
    for (const PlanIds &ids : plan.ids) differ_ |= ids.mean_weight >= 0;
}

template <typename T> double RowWeights::sum_of(const PlanIds &ids, std::span<const T> targets) const {
    const float *weights = ids.class_weights < 0 ? nullptr : plan_.buffers[size_t(ids.class_weights)].constant.data();
    double sum = 0;
    for (size_t r = 0; r < targets.size(); r++) {
        const T id = targets[r];
        if (ids.ignored && id == T(*ids.ignored)) continue;
        if (ids.classes > 0 && (id < 0 || id >= T(ids.classes)))
            throw TargetError(fmt::format(
                "the target of row {} of a batch is {}, but '{}' has {} classes, 0 to {}, and ignores {}", r, id,
                ids.loss, ids.classes, ids.classes - 1, ids.ignored ? fmt::format("{}", *ids.ignored) : "none"));
        sum += weights ? double(weights[size_t(id)]) : 1.0;
    }
    return sum;
}

template <typename T> void RowWeights::add_all(std::span<const T> targets) {
    for (size_t k = 0; k < plan_.ids.size(); k++) added_[k] = sum_of(plan_.ids[k], targets);
    for (size_t k = 0; k < sums_.size(); k++) sums_[k] += added_[k];
    rows_ += targets.size();
}
template void RowWeights::add_all(std::span<const int32_t>);
template void RowWeights::add_all(std::span<const float>);

void RowWeights::clear() {
    std::ranges::fill(sums_, 0.0);
    rows_ = 0;
}

}  // namespace cryolite
