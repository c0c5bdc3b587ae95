#pragma once
// The memory of a worker that a call reads and writes, known from the plan alone. Calls that touch the same memory keep
// their order.

#include <vector>

#include "bundle/plan.h"

namespace cryolite {

struct Touched {
    int memory;          ///< index of a buffer; -1: the arena, whose buffers may share memory
    int64_t begin, end;  ///< bytes of it
    bool written;

    bool conflicts(const Touched &r) const {
        return (written || r.written) && memory == r.memory && begin < r.end && r.begin < end;
    }
};

/// The memory of a call's arguments and workspace. Another worker's gradient counts as this worker's own.
std::vector<Touched> touched_by(const Plan &plan, const PlanCall &call);

bool conflict(const std::vector<Touched> &a, const std::vector<Touched> &b);

}  // namespace cryolite
