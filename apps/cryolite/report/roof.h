#pragma once

#include <algorithm>

#include "bundle/plan.h"

namespace cryolite {

/// What the machine can do: `peak` in 1e9 FLOP/s, `bandwidth` in 1e9 bytes/s.
struct Roof {
    double peak = 0, bandwidth = 0;

    /// The least seconds that a call can take. `bound` says whether computing or memory decides that.
    double seconds(const PlanCall &c) const { return seconds(c.flops, c.bytes, 1); }
    /// The same, if only a share of the peak can be reached.
    double seconds(double flops, int64_t bytes, double share) const {
        return std::max(flops / (share * peak * 1e9), double(bytes) / (bandwidth * 1e9));
    }
    const char *bound(const PlanCall &c) const {
        return c.flops / peak > double(c.bytes) / bandwidth ? "compute" : "memory";
    }
};

}  // namespace cryolite
