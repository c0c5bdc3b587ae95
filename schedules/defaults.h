#pragma once

#include "dsl/graph.h"
#include "schedules/step_schedule.h"

namespace cryolite {

/// The storage of a parameter that the step schedule does not lay out itself: weights of products in panels
/// of output columns, so that one layout serves Y, dX and dW and an update streams it; the rest row-major.
Layout default_layout(const Graph &graph, const Parameter &w, const Machine &m);

}  // namespace cryolite
