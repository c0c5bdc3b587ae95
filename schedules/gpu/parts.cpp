// Long sums into few elements, such as the gradient of a bias or the mean of a channel: too few threads would add them.

#include <algorithm>

#include "schedules/gpu/idioms.h"
#include "schedules/regions.h"

namespace cryolite::gpu {

namespace {

constexpr int64_t enough = int64_t(1) << 17;  // threads that keep the memory of a large GPU busy
constexpr int terms = 32;                     // that one thread adds, about

/// Whether the terms of `f` can be added in any order, each to the element that it is called for.
bool adds_terms(const Func &f) {
    if (f.num_update_definitions() != 1) return false;
    const Internal::Definition &d = f.function().update();
    return at_own_indices(f.function(), d) && Internal::is_const_one(d.predicate()) &&
           Internal::prove_associativity(f.name(), d.args(), d.values()).associative();
}

/// The largest divisor of `n` up to `most`, or `most` where all of these are small.
int part_of(int n, int most) {
    const int d = divisor(n, most);
    return d > most / 4 ? d : most;
}

/// Unrolls the loop over the innermost terms, so that a thread waits for several loads at once.
void unroll_terms(Func f) {
    const int n = reduction_extent(f), several = part_of(n, 16);
    if (n > 1 && n % several == 0) f.update().unroll(f.rvars()[0], several);
}

/// As add_in_parts; `level` counts the sums of parts of parts.
void add_in_parts_of(Func f, int64_t elements, Placed &placed, int level) {
    if (!adds_terms(f)) return;
    const std::vector<RVar> r = f.rvars();
    int64_t all = 1;
    for (int k = 0; k < int(r.size()); k++) all *= reduction_extent(f, k);
    if (elements >= enough || all < 4 * terms) return level > 0 ? unroll_terms(f) : void();
    // A thread takes the innermost terms, and each of the other variables becomes a dimension of the parts.
    std::vector<std::pair<RVar, Var>> outer;
    int64_t own = 1;
    // Not more parts than keep the GPU busy: they take memory.
    const int64_t terms_of_thread = std::max<int64_t>(terms, all * elements / enough);
    for (int k = 0; k < int(r.size()); k++) {
        const int extent = reduction_extent(f, k);
        const int most = int(std::max<int64_t>(terms_of_thread / own, 1));
        RVar rest = r[size_t(k)];
        if (extent <= 2 * most && outer.empty()) {
            own *= extent;
            continue;
        }
        if (outer.empty() && most > 1) {
            RVar inside("term_" + std::to_string(level));
            rest = RVar("parts_" + std::to_string(level));
            f.update().split(r[size_t(k)], rest, inside, part_of(extent, most), TailStrategy::GuardWithIf);
        }
        outer.emplace_back(rest, Var("part_" + std::to_string(k)));
    }
    if (outer.empty()) return;
    Func part = f.update().rfactor(outer);
    unroll_terms(part);
    at_root(part, placed);
    add_in_parts_of(f, elements, placed, level + 1);
}

}  // namespace

void add_in_parts(Func f, int64_t elements, Placed &placed) { add_in_parts_of(f, elements, placed, 0); }

}  // namespace cryolite::gpu
