#pragma once
// What this machine can do at best, measured now: the roof that kernels are compared with.

namespace cryolite {

/// Fused multiply-adds of float32 from registers, in 1e9 operations per second (a multiply-add is
/// two), on so many threads, with the widest vectors the processor has. Takes `seconds`; each
/// thread's best of many short pieces counts, because other programs run too.
double measure_fma_peak(int threads, double seconds = 0.03);

/// The same of products of bf16, summed in float32: dot products of pairs, or multiply-adds where these are faster.
double measure_bf16_peak(int threads, double seconds = 0.03);

/// Bytes read and written per second, in 1e9, streaming through more memory than the caches hold.
double measure_bandwidth(int threads, double seconds = 0.1);

}  // namespace cryolite
