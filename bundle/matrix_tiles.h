#pragma once
// Products of tiles of bf16, by the instructions that Intel calls AMX. Compiled kernels call this function, which they
// find in the process, as they find Halide's runtime.

/// c(y, x) = sum over k < pairs and p < 2 of a(y, k, p) b(k, x, p), with a and b in bf16 and c in float32; where `add` is
/// not 0, the sum is added to what c(y, x) is. A pair, p = 0 and 1, is 4 bytes; pairs of a row of `a`, and columns of `b` and `c`, lie side by side. Strides are in bytes:
/// from row to row of `a` and of `c`, and from one k to the next of `b`. Sums of a pair's two terms are not rounded
/// between them, and denormal numbers count as zero (Intel's manual, TDPBF16PS).
extern "C" void cryolite_multiply_tiles(const void *a, int a_stride, const void *b, int b_stride, float *c,
                                        int c_stride, int rows, int columns, int pairs, int add);
