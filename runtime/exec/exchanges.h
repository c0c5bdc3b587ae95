#pragma once
// The transfers between workers, each on a device of its own, during a plan. They follow from the plan alone.

#include <vector>

#include "bundle/plan.h"
#include "runtime/collective/collective.h"

namespace cryolite {

/// Transfers that are put into the side stream as one group. The stream executes groups in the order of their list.
struct Exchange {
    struct Part {
        TransferKind kind;
        int owner;  ///< of a reduce or broadcast
        int buffer;
        int64_t begin, bytes;  ///< in storage order, of all workers' parts; equal parts may end beyond the array
    };
    std::vector<Part> parts;
    size_t after = 0;   ///< the transfers begin after this many calls of the plan
    size_t before = 0;  ///< index of the first call that needs their results; the number of calls: the next plan does
    int64_t bytes() const;
};

/// The exchanges of a plan, the same on all workers. A gradient is reduced as soon as it exists, a small one
/// together with the next, unless it is needed before. Owners' results go to all once they are worth a transfer or
/// needed. Errors: a call reads gradients in other workers' memory.
std::vector<Exchange> exchanges(const Plan &plan, const std::vector<PlanCall> &calls);

/// "reduce-scatter", ...
const char *name_of(TransferKind kind);

}  // namespace cryolite
