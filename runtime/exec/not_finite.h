#pragma once
// Finds the first value of a step that is infinite or NaN: what each call wrote is checked after it.

#include <optional>

#include "runtime/exec/executor.h"

namespace cryolite {

/// A value that is not finite, and what made it.
struct NotFinite {
    uint64_t when = 0;  ///< how many calls of this worker were watched before
    uint64_t line = 0;  ///< index in `Plan::plans`
    uint64_t call = 0;  ///< index in that plan
    uint64_t argument = 0;
    uint64_t index = 0;  ///< in storage order, among the elements that the call writes there
    double value = 0;

    /// "inf, at element 3 of the gradient of 'h.0.mlp.c_fc.weight', which 'd(h.0.mlp.c_fc.weight)' of the backward pass
    /// writes"
    std::string words(const Plan &plan) const;
};

/// Runs the plans of a worker call by call and remembers the first value that is not finite. It does not stop there, as
/// other workers wait for the calls that follow.
class FiniteWatch {
public:
    /// Zeroes the results of earlier steps: a value that was not finite before and stays the same would not be found.
    explicit FiniteWatch(Executor &executor);

    void run(const std::string &plan);
    const std::optional<NotFinite> &found() const { return found_; }

private:
    struct Seen;
    Executor &executor_;
    std::optional<NotFinite> found_;
    uint64_t watched_ = 0;

    std::vector<Seen> look(const PlanCall &c) const;
};

}  // namespace cryolite
