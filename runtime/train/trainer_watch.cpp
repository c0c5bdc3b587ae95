// Of a trainer: what became of updates and values that are not finite.

#include <algorithm>

#include "runtime/train/trainer.h"

namespace cryolite {

uint64_t Trainer::withheld() {
    if (count_ < 0) return 0;
    int32_t count[2] = {};
    executor().download(count, count_, sizeof count);
    return uint64_t(count[1]);
}

/// Every worker withholds the same updates.
void Trainer::count_withheld() {
    const uint64_t now = withheld();
    in_a_row_ = now == withheld_ ? 0 : in_a_row_ + 1;
    withheld_ = now;
}

void Trainer::forget_steps() {
    flush();
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        if (plan().buffers[b].role != "state") continue;
        row_major_.assign(size_t(plan().buffers[b].elements()), 0);
        put(int(b), row_major_);
    }
    drop_staging();
    const int32_t none[2] = {};
    for (auto &e : executors_)
        if (count_ >= 0) e->upload(count_, none, sizeof none);
    steps_ = withheld_ = in_a_row_ = 0;
}

void Trainer::watch_values() {
    flush();
    watches_.clear();
    for (auto &e : executors_) watches_.emplace_back(*e);
}

std::optional<NotFinite> Trainer::first_not_finite() {
    const NotFinite *first = nullptr;
    for (const FiniteWatch &w : watches_)
        if (w.found() && (!first || w.found()->when < first->when)) first = &*w.found();
    if (processes_.size() == 1) return first ? std::optional(*first) : std::nullopt;
    const NotFinite mine = first ? *first : NotFinite{.when = ~uint64_t{0}};
    const std::vector<double> when = of_all(double(mine.when));
    const auto rank = std::ranges::min_element(when) - when.begin();
    if (when[size_t(rank)] == double(~uint64_t{0})) return std::nullopt;
    auto its = [&](double here) { return of_all(here)[size_t(rank)]; };
    auto number = [&](uint64_t here) { return uint64_t(its(double(here))); };
    return NotFinite{number(mine.when),     number(mine.line),  number(mine.call),
                     number(mine.argument), number(mine.index), its(mine.value)};
}

}  // namespace cryolite
