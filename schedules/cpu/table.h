#pragma once
// Which loop schedule serves which kernel.

#include <optional>

#include "schedules/step_schedule.h"

namespace cryolite {

struct NamedLoops {
    std::string name;
    LoopSchedule apply;
};

/// The loop schedule that was written for a group, by the type of its anchor layer (null: pointwise stages or an
/// update); none: the step's automatic ones serve.
std::optional<NamedLoops> written_loops(const Group &g, const Layer *anchor, const Step &step);

/// What every schedule starts with: numbers that the whole kernel shares are computed once.
void share_numbers(Group &g);

}  // namespace cryolite
