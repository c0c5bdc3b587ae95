#pragma once

#include <HalideRuntime.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace cryolite {

/// to = from[0] + from[1] + ..., in this order whatever the number of threads; `to` may be one of them.
inline void add_in_order(float *to, std::span<const float *const> from, size_t count, void *context) {
    static constexpr size_t block = 4096;  // elements: all shares of one stay in the first cache
    struct Work {
        float *to;
        std::span<const float *const> from;
        size_t count;
    } work{to, from, count};
    auto add = [](void *, int index, uint8_t *closure) {
        const Work &w = *reinterpret_cast<const Work *>(closure);
        const size_t begin = size_t(index) * block, n = std::min(block, w.count - begin);
        alignas(64) float sum[block];
        std::copy_n(w.from[0] + begin, n, sum);
        for (size_t k = 1; k < w.from.size(); k++) {
            const float *share = w.from[k] + begin;
            for (size_t i = 0; i < n; i++) sum[i] += share[i];
        }
        std::copy_n(sum, n, w.to + begin);
        return 0;
    };
    halide_do_par_for(context, add, 0, int((count + block - 1) / block), reinterpret_cast<uint8_t *>(&work));
}

}  // namespace cryolite
