#pragma once
// The loop schedules of the CPU: one function per kind of anchor.

#include "schedules/group.h"

namespace cryolite::cpu {

/// Columns in a storage panel of a weight with `out` columns; 0: store it row-major.
int panel_width(int out, const Machine &m);

/// Y, dX and dW of a matrix product, with what was placed around it; dW also in place (fused update).
void product(Group &g, const Machine &m);

/// Causal self-attention, forward and backward, as dsl/layers/attention_algorithm.h writes it.
void attention(Group &g, const Machine &m);

/// A sum over rows, s(o) += f(o, m), as of a bias' gradient; also in place.
void sum_rows(Group &g, const Machine &m);

}  // namespace cryolite::cpu
