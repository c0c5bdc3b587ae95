#pragma once
// dX of few rows, which do not pay for the transposition of W: W is read as it is stored.

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// Gives dX loops for few rows, if its shape and the tunable `form` allow them; false: it gets those for many rows.
/// `form`: 0 each task transposes W (many rows), 1 inner products along the panels, 2 rows across the lanes.
bool d_input_of_few_rows(Group &g, const Machine &m);

}  // namespace cryolite::cpu
