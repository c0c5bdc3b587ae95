#pragma once
// Products of tiles of bf16, by the instructions that Intel calls AMX. Compiled kernels call these functions, which
// they find in the process, as they find Halide's runtime.

#include <string_view>

/// c(y, x) = sum over k < pairs and p < 2 of a(y, k, p) b(k, x, p), with a and b in bf16 and c in float32. Where `add`
/// is not 0, the sum is added to c(y, x). A pair, p = 0 and 1, is 4 bytes. Pairs of a row of `a` lie side by side, and
/// so do columns of `b` and `c`. Strides are in bytes: `a_stride` and `c_stride` from row to row, `b_stride` from one k
/// to the next. Addresses and strides need no alignment beyond that of their elements. The order of the additions is
/// the processor's, and denormal numbers count as zero (Intel's manual, TDPBF16PS).
extern "C" void cryolite_multiply_tiles(const void *a, int a_stride, const void *b, int b_stride, float *c,
                                        int c_stride, int rows, int columns, int pairs, int add);

/// The same for factors of float32 that are sums of three bf16, high + middle + low, where each rounds what the ones
/// before it leave. Of the nine products of parts, the six largest are added. The others are below 2^-24 of the
/// factors' product, as is the rounding of a float32 multiplication.
extern "C" void cryolite_multiply_split(const void *a_high, const void *a_middle, const void *a_low, int a_stride,
                                        const void *b_high, const void *b_middle, const void *b_low, int b_stride,
                                        float *c, int c_stride, int rows, int columns, int pairs, int add);

namespace cryolite {

/// Products of bf16 that a product of split factors takes.
constexpr int products_of_split = 6;

/// The suffix of the names of loops that multiply by these tiles.
inline constexpr std::string_view by_tiles = "_by_tiles";

/// The parts of a factor, whose strides are the same.
struct SplitFactor {
    const void *high, *middle, *low;
    int stride;
};

/// The same, element by element, where this processor has no tiles. Denormal numbers count as what they are.
void multiply_elements(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride, int rows,
                       int columns, int pairs, int add);
void multiply_split_elements(const SplitFactor &a, const SplitFactor &b, float *c, int c_stride, int rows, int columns,
                             int pairs, int add);

}  // namespace cryolite
