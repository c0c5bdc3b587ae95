#pragma once
// The machine's peak rates, measured now: the roofline that kernels are compared with.

#include <string>

namespace cryolite {

/// Float32 fused multiply-adds from registers, in 1e9 operations per second (a multiply-add counts as two), on
/// `threads` threads, with the widest vectors of the processor. Runs for `seconds`. Each thread's best of many short
/// pieces counts, because other programs run too.
double measure_fma_peak(int threads, double seconds = 0.03);

/// The same for products of a step in `precision`, summed in float32. With `tiles`, which the processor must have:
/// those of bf16 tiles, and in fp32 a sixth of them, as many as a product of float32 takes (bundle/matrix_tiles.h).
/// Else dot products of bf16 pairs, where these are faster than multiply-adds.
double measure_product_peak(int threads, const std::string &precision, bool tiles, double seconds = 0.03);

/// Memory bandwidth in 1e9 bytes per second, read and written, over more memory than the caches hold.
double measure_bandwidth(int threads, double seconds = 0.1);

}  // namespace cryolite
