#pragma once

#include "dsl/graph.h"
#include "schedules/step_schedule.h"

namespace cryolite {

/// The storage of a parameter for which the step schedule has no layout. On a CPU, weights of products are in panels of
/// output columns: one layout serves Y, dX and dW, and an update streams through it. All others are row-major.
Layout default_layout(const Graph &graph, const Parameter &w, const Machine &m);

/// The most rows with which it pays to fuse the update of a layer's parameter into the product that computes its
/// gradient; 0: it never does. With so few rows, streaming the parameter costs about as much as the product. With
/// clipping the number is smaller, as the cost of norms grows with the rows.
int fused_update_rows(const Layer &layer, bool clip);

/// The most elements of a parameter that is updated in one kernel together with others; 0: none is. On a GPU a launch
/// takes as long as reading and writing some hundred kilobytes.
int64_t joined_update_elements(const Machine &m);

/// The rows of the blocks in which a model's head and loss are computed, where the head's output has `bytes`: the
/// fewest with which products are near their best speed. 0: no blocks; the output is small beside the rest of a step.
/// On a GPU both bounds are higher, because each block reads and writes the whole gradient of the head's weight.
int head_block_rows(int64_t bytes, const Machine &m);
/// The same where a line asks for blocks and does not say of how many rows.
int head_block_rows(const Machine &m);

}  // namespace cryolite
