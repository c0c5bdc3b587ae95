#include "runtime/plan/layout.h"

#include <algorithm>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Calls move(logical, stored) for every element of the array.
template <typename Move> void for_each(const PlanBuffer &b, const Move &move) {
    int panel = b.layout.panel;
    size_t cut = size_t(b.layout.dim);
    int64_t inner = 1, outer = 1, n = b.shape.at(cut);
    for (size_t d = 0; d < cut; d++) inner *= b.shape[d];
    for (size_t d = cut + 1; d < b.shape.size(); d++) outer *= b.shape[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < inner; i++) {
                int64_t block = k / panel, lane = k % panel;
                move((o * n + k) * inner + i, ((block * outer + o) * inner + i) * panel + lane);
            }
}

void check(const PlanBuffer &b, size_t row_major, size_t storage) {
    if (int64_t(row_major) != b.elements() || int64_t(storage) != b.stored_elements())
        fail("'{}' has {} elements, {} in storage: not those given", b.name, b.elements(), b.stored_elements());
}

}  // namespace

void to_storage(const PlanBuffer &b, std::span<const float> row_major, std::span<float> storage) {
    check(b, row_major.size(), storage.size());
    if (b.layout.panel == 0) return void(std::copy(row_major.begin(), row_major.end(), storage.begin()));
    std::fill(storage.begin(), storage.end(), 0.0f);
    for_each(b, [&](int64_t logical, int64_t stored) { storage[size_t(stored)] = row_major[size_t(logical)]; });
}

void to_row_major(const PlanBuffer &b, std::span<const float> storage, std::span<float> row_major) {
    check(b, row_major.size(), storage.size());
    if (b.layout.panel == 0) return void(std::copy(storage.begin(), storage.end(), row_major.begin()));
    for_each(b, [&](int64_t logical, int64_t stored) { row_major[size_t(logical)] = storage[size_t(stored)]; });
}

}  // namespace cryolite
