#pragma once

#include "dsl/graph.h"
#include "schedules/step_schedule.h"

namespace cryolite {

/// The storage of a parameter that the step schedule does not lay out itself: weights of products in panels
/// of output columns, so that one layout serves Y, dX and dW and an update streams it; the rest row-major.
Layout default_layout(const Graph &graph, const Parameter &w, const Machine &m);

/// Up to how many rows a fused update of a layer's parameter pays: where the product that makes the gradient has so few
/// that streaming the parameter costs about as much. Fused, GPT-2 steps of 64 rows took 0.93 and of 256 rows 0.98 of
/// their time, `nano` ones of 768 rows 1.02 (2 Zen 4 cores). With clipping, norms cost more with every row.
int fused_update_rows(const Layer &layer, bool clip);

/// Up to how many elements a parameter is small enough to be updated in one kernel with others; 0: none is. On a GPU a
/// launch takes as long as some hundred kilobytes take to be read and written.
int64_t joined_update_elements(const Machine &m);

/// Of how many rows the blocks are in which a model's head and loss are computed, where its output has so many bytes:
/// the fewest that products are near their best speed with,
/// as far as the output is large beside the rest of a step; else 0.
int head_block_rows(int64_t bytes);

}  // namespace cryolite
