#pragma once
// The loop schedules of the CPU: one function per kind of anchor.

#include "schedules/group.h"

namespace cryolite::cpu {

/// Columns in a storage panel of a weight with `out` columns; 0: store it row-major.
int panel_width(int out, const Machine &m);

/// Y, dX and dW of a matrix product, with what was placed around it; dW also in place (fused update).
void product(Group &g, const Machine &m);

/// A sum of products (schedules/contraction.h) of any other layer, with any number of outer dimensions.
void contraction(Group &g, const Machine &m);

/// Any kernel that does not update in place, layers without loops of their own too.
void tiled(Group &g, const Machine &m);

/// Causal self-attention, forward and backward, as dsl/layers/attention_algorithm.h writes it.
void attention(Group &g, const Machine &m);

/// Layers that normalise rows: LayerNorm, softmax and what follows from them, out(i, r).
void rowwise(Group &g, const Machine &m);

/// Anything pointwise in any number of dimensions, a gather too; updates in place.
void pointwise(Group &g, const Machine &m);

/// A loss that is a mean over rows, and its gradient.
void row_losses(Group &g, const Machine &m);

/// The loss of each row, "loss_of_row"(row), of any loss, and "sum_of_rows". Funcs of a row have it as their last
/// dimension.
void weighted_rows(Group &g, const Machine &m);

/// A sum over rows, s(o) += f(o, m), as the gradients of a bias or of positions are; also in place.
void sum_rows(Group &g, const Machine &m);

/// Such sums, stored as one Tuple or alone, whose terms read numbers of whole rows: the gradients of LayerNorm's gains.
void sum_normalised_rows(Group &g, const Machine &m);

/// Layers that normalise groups of channels over whole images, out(c, place, image), and sums over what they normalise.
void group_norm(Group &g, const Machine &m);
void sum_normalised_images(Group &g, const Machine &m);

/// Layers that normalise channels over all rows, out(c, r), sums over rows of what they normalise, out(c), and updates
/// of running statistics.
void batch_norm(Group &g, const Machine &m);

/// The sum over a dimension, s(..) += f(.., k, ..), and its gradient.
void reduce(Group &g, const Machine &m);

/// Scans along a sequence, out(i, position, sequence), and their gradients.
void scan(Group &g, const Machine &m);

/// Convolutions over [channels, width, height, batch], transposed ones too, forward and both gradients.
void convolution(Group &g, const Machine &m);

/// Pools over [channels, width, height, batch], and convolutions in groups.
void windows(Group &g, const Machine &m);

/// n() += g(i)^2: the same order of additions for any number of threads.
void squared_norm(Group &g, const Machine &m);

/// The norm of a gradient that is not computed, as dsl/ghost_norm.h writes it: inner products of rows, block by block.
void ghost_norm(Group &g, const Machine &m);

/// Rows added at places that depend on data: an embedding's gradient.
void scatter(Group &g, const Machine &m);

}  // namespace cryolite::cpu
