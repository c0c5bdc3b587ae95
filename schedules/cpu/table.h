#pragma once
// Which loop schedule serves which kernel.

#include "schedules/step_schedule.h"

namespace cryolite {

/// Schedules the loops of a group by the type of its anchor layer (null: pointwise stages or an update).
/// Returns the name of the loop schedule; a layer that has none is scheduled by an autoscheduler.
std::string apply_loops(Group &g, Halide::Pipeline &pipeline, const Layer *anchor, const Step &step,
                        const Machine &m);

}  // namespace cryolite
