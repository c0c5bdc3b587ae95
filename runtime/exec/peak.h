#pragma once
// The machine's peak rates, measured now: the roofline that kernels are compared with.

namespace cryolite {

/// Float32 fused multiply-adds from registers, in 1e9 operations per second (a multiply-add counts as two), on
/// `threads` threads, with the widest vectors of the processor. Runs for `seconds`. Each thread's best of many short
/// pieces counts, because other programs run too.
double measure_fma_peak(int threads, double seconds = 0.03);

/// The same for bf16 products summed in float32: those of `tiles`, which the processor must have; else
/// dot products of pairs, or multiply-adds where these are faster.
double measure_bf16_peak(int threads, bool tiles, double seconds = 0.03);

/// Memory bandwidth in 1e9 bytes per second, read and written, over more memory than the caches hold.
double measure_bandwidth(int threads, double seconds = 0.1);

}  // namespace cryolite
