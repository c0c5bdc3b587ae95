#pragma once
// The loop schedules of GPUs, shared by CUDA and OpenCL but for warps.cpp: one function per kind of anchor. Every loop
// over data is inside of blocks of threads; a sum is one thread's, or of a fixed number of parts, so that the order of
// additions is fixed.

#include "schedules/group.h"

namespace cryolite::gpu {

/// Y, dX and dW of a matrix product, with what was placed around it; dW also in place (fused update).
void product(Group &g, const Machine &m);

/// Self-attention: forward in one launch, where the scores of some queries fit a block's memory.
void attention(Group &g, const Machine &m);

/// Layers that normalise rows: a row is a block's.
void rowwise(Group &g, const Machine &m);

/// The mean loss (forward) and its gradient.
void row_losses(Group &g, const Machine &m);

/// An element is a thread's, and the sum that makes it too: rows of a bias' gradient, windows of an image.
void sum_in_thread(Group &g, const Machine &m);

/// Gradients of gains: sums over rows that were normalised.
void sums_of_normalised_rows(Group &g, const Machine &m);

/// n() += g(i)^2.
void squared_norm(Group &g, const Machine &m);

/// n() += (a_m . a_n) (b_m . b_n) over all rows: a block has some rows m, its threads the rows n. No product is stored.
void ghost_norm(Group &g, const Machine &m);

/// What works on single elements: updates, activations.
void pointwise(Group &g, const Machine &m);

/// Any kernel: sums that others read are made before them, each a launch of its own.
void plain_loops(Group &g, const Machine &m);

}  // namespace cryolite::gpu
