#pragma once
// What workers on devices of their own send each other while a plan runs, and where among its calls: by the plan alone.

#include <vector>

#include "bundle/plan.h"
#include "runtime/collective/collective.h"

namespace cryolite {

/// Transfers that are put into a stream of their own as one. A stream does them in the order of their list.
struct Exchange {
    struct Part {
        TransferKind kind;
        int owner;  ///< of a reduce or broadcast
        int buffer;
        int64_t begin, bytes;  ///< in storage, of all workers' parts; equal parts may reach beyond the array's end
    };
    std::vector<Part> parts;
    size_t after = 0;   ///< they begin when so many calls of the plan have ended
    size_t before = 0;  ///< the first call that needs what they do; the number of calls: the next plan does
    int64_t bytes() const;
};

/// Gradients are added as soon as they exist; what owners compute goes to all when that is worth a transfer, or is
/// needed. The same for all workers. Errors: a call reads gradients where other workers have them.
std::vector<Exchange> exchanges(const Plan &plan, const std::vector<PlanCall> &calls);

/// "reduce_scatter", ...
const char *name_of(TransferKind kind);

}  // namespace cryolite
