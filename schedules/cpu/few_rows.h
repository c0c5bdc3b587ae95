#pragma once
// dX of few rows, which do not pay for the transposition of W: W is read as it is stored.

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// Gives dX such loops, where its shape and the line `form` ask for them; false: it is to have those of many rows.
/// `form`: 0 W transposed by each task, 1 inner products along the panels, 2 rows across the lanes.
bool d_input_of_few_rows(Group &g, const Machine &m);

}  // namespace cryolite::cpu
