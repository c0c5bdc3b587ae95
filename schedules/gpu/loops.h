#pragma once
// The loop schedules of GPUs, shared by CUDA and OpenCL but for warps.cpp: one function per kind of anchor. Every loop
// over data is inside of blocks of threads. One thread computes a sum, or a fixed number of parts of it are added, so
// that the order of additions is fixed.

#include "schedules/group.h"

namespace cryolite::gpu {

/// Y, dX and dW of a matrix product, with what was placed around it; dW also in place (fused update).
void product(Group &g, const Machine &m);

/// Self-attention: in tiles, forward in five launches and its gradient in seven; plain loops where a head is too long.
void attention(Group &g, const Machine &m);

/// Layers that normalise rows: a block of threads, or a warp, takes a row.
void rowwise(Group &g, const Machine &m);

/// The mean loss (forward) and its gradient.
void row_losses(Group &g, const Machine &m);

/// A thread computes an element and the whole sum for it: over rows, for the gradient of a bias, or over a window.
void sum_in_thread(Group &g, const Machine &m);

/// Y, dX and dW of a convolution: a thread has several neighbouring sums; those of dW it adds in parts.
void windows(Group &g, const Machine &m);

/// Gradients of gains: sums over rows that were normalised.
void sums_of_normalised_rows(Group &g, const Machine &m);

/// Sums into rows of a table: threads share the channels of a row, and blocks of threads the rows.
void scatter(Group &g, const Machine &m);

/// n() += g(i)^2.
void squared_norm(Group &g, const Machine &m);

/// n() += (a_m . a_n) (b_m . b_n) over all rows: a block takes some rows m, its threads rows n. No product is stored.
void ghost_norm(Group &g, const Machine &m);

/// Kernels that work on single elements: updates, activations.
void pointwise(Group &g, const Machine &m);

/// Any kernel: each sum that other Funcs read is a launch of its own, before them.
void plain_loops(Group &g, const Machine &m);

}  // namespace cryolite::gpu
