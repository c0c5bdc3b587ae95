#pragma once
// The weights of a batch's rows in losses that weigh rows by their targets: known before a step, for its whole batch.

#include <span>

#include "bundle/plan.h"
#include "runtime/io/error.h"

namespace cryolite {

/// A target that is neither one of a loss' classes nor the one it ignores.
struct TargetError : Error {
    using Error::Error;
};

class RowWeights {
public:
    explicit RowWeights(const Plan &plan);

    /// Whether the plan has losses whose rows have different weights.
    bool differ() const { return differ_; }
    /// Adds these rows. Errors: TargetError, naming the loss, the row and what is expected; none are added then.
    void add(std::span<const int32_t> targets) { add_all(targets); }
    void add(std::span<const float> targets) { add_all(targets); }
    void clear();
    /// The mean weight of the rows that were added, in the loss `plan.ids[k]`; 1 where all their weights are 0, so that
    /// the loss is 0 over 1.
    float mean(size_t k) const { return sums_[k] > 0 ? float(sums_[k] / double(rows_)) : 1.0f; }

private:
    const Plan &plan_;
    bool differ_ = false;
    std::vector<double> sums_, added_;  ///< by `plan.ids`
    uint64_t rows_ = 0;

    template <typename T> void add_all(std::span<const T> targets);
    template <typename T> double sum_of(const PlanIds &ids, std::span<const T> targets) const;
};

}  // namespace cryolite
