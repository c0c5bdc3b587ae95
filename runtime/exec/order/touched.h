#pragma once
// Which memory of a worker a call of a plan reads and writes, by the plan alone: calls that touch the same keep their
// order.

#include <vector>

#include "bundle/plan.h"

namespace cryolite {

struct Touched {
    int memory;          ///< a buffer; -1: the arena, whose buffers may share it
    int64_t begin, end;  ///< bytes of it
    bool written;

    bool conflicts(const Touched &r) const {
        return (written || r.written) && memory == r.memory && begin < r.end && r.begin < end;
    }
};

/// Of a call's arguments and its workspace. The gradient of another worker counts as that of this one.
std::vector<Touched> touched_by(const Plan &plan, const PlanCall &call);

bool conflict(const std::vector<Touched> &a, const std::vector<Touched> &b);

}  // namespace cryolite
