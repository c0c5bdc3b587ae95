#pragma once
// Sums of several numbers or arrays in a tree: the sum of the first half plus the sum of the second half. Where the
// count is a power of two, a worker may add the numbers of a whole branch first: the sum has the same bits.

#include <HalideRuntime.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace cryolite {

/// The sum of no numbers is 0.
inline double tree_sum(std::span<const double> of) {
    if (of.size() < 2) return of.empty() ? 0 : of[0];
    return tree_sum(of.first(of.size() / 2)) + tree_sum(of.subspan(of.size() / 2));
}

namespace sums {

constexpr size_t block = 2048;  // elements: a few such blocks fit in the L1 cache
using Arrays = std::span<const float *const>;

/// sum[i] = the sum over all arrays of their element begin + i; `sum` is not one of the arrays.
inline void tree_of_block(float *sum, Arrays from, size_t begin, size_t count) {
    if (from.size() == 1) return void(std::copy_n(from[0] + begin, count, sum));
    const Arrays first = from.first(from.size() / 2), second = from.subspan(from.size() / 2);
    tree_of_block(sum, first, begin, count);
    alignas(64) float other[block];
    const float *right = second.size() == 1 ? second[0] + begin : other;
    if (right == other) tree_of_block(other, second, begin, count);
    for (size_t i = 0; i < count; i++) sum[i] += right[i];
}
inline void chain_of_block(float *sum, Arrays from, size_t begin, size_t count) {
    std::copy_n(from[0] + begin, count, sum);
    for (const float *next : from.subspan(1))
        for (size_t i = 0; i < count; i++) sum[i] += next[begin + i];
}

template <void (*of_block)(float *, Arrays, size_t, size_t)>
void add(float *to, Arrays from, size_t count, void *context) {
    struct Work {
        float *to;
        Arrays from;
        size_t count;
    } work{to, from, count};
    auto task = [](void *, int index, uint8_t *closure) {
        const Work &w = *reinterpret_cast<const Work *>(closure);
        const size_t begin = size_t(index) * block, n = std::min(block, w.count - begin);
        alignas(64) float sum[block];
        of_block(sum, w.from, begin, n);
        std::copy_n(sum, n, w.to + begin);
        return 0;
    };
    halide_do_par_for(context, task, 0, int((count + block - 1) / block), reinterpret_cast<uint8_t *>(&work));
}

}  // namespace sums

/// to = the sum of `from` as a tree, with the same bits on any number of threads; `to` may be one of the arrays.
inline void add_in_tree(float *to, sums::Arrays from, size_t count, void *context) {
    sums::add<sums::tree_of_block>(to, from, count, context);
}
/// to = from[0] + from[1] + ..., added in this order; `to` may be one of the arrays.
inline void add_in_order(float *to, sums::Arrays from, size_t count, void *context) {
    sums::add<sums::chain_of_block>(to, from, count, context);
}

}  // namespace cryolite
