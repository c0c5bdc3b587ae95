#pragma once

#include <algorithm>

#include "bundle/plan.h"

namespace cryolite {

/// What the machine can do: 1e9 operations and bytes a second.
struct Roof {
    double peak = 0, bandwidth = 0;

    /// The least time a call can take, and whether computing or memory decides that.
    double seconds(const PlanCall &c) const { return seconds(c.flops, c.bytes, 1); }
    /// With a share of the peak.
    double seconds(double flops, int64_t bytes, double share) const {
        return std::max(flops / (share * peak * 1e9), double(bytes) / (bandwidth * 1e9));
    }
    const char *bound(const PlanCall &c) const {
        return c.flops / peak > double(c.bytes) / bandwidth ? "compute" : "memory";
    }
};

}  // namespace cryolite
