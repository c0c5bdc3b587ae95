// The trainer's part for withheld updates, values that are not finite, and the loss scale.

#include <algorithm>

#include "runtime/train/trainer.h"

namespace cryolite {

uint64_t Trainer::withheld() {
    if (count_ < 0) return 0;
    int32_t count[2] = {};
    executor().download(count, count_, sizeof count);
    return uint64_t(count[1]);
}

/// `to` is valid once the device has finished.
void Trainer::fetch_loss_scaler(LossScaler &to) {
    executor().fetch(&to.scale, scaler_, sizeof to.scale);
    for (int k = 0; k < 2; k++) executor().fetch(&to.steps[size_t(k)], scaler_ + 1 + k, sizeof(int32_t));
}

Trainer::LossScaler Trainer::loss_scaler() {
    LossScaler s;
    fetch_loss_scaler(s);
    executor().device().finish();
    return s;
}

void Trainer::put_loss_scaler(const LossScaler &s) {
    for (auto &e : executors_) {
        e->upload(scaler_, &s.scale, sizeof s.scale);
        for (int k = 0; k < 2; k++) e->upload(scaler_ + 1 + k, &s.steps[size_t(k)], sizeof(int32_t));
    }
}

void Trainer::set_loss_scale(double scale) {
    if (!is_power_of_two(scale) || scale < least_first_loss_scale || scale > largest_first_loss_scale)
        fail("the loss's scale is {}, expected a power of two from {} to {}", scale, least_first_loss_scale,
             largest_first_loss_scale);
    if (scaler_ < 0)
        fail("the plan has no scale of the loss: it is compiled for another precision than fp16, or with "
             "--finite-check off");
    first_scale_ = scale;
    put_loss_scaler({float(scale)});
}

void Trainer::forget_steps() {
    flush();
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        if (plan().buffers[b].role != Role::state) continue;
        row_major_.assign(size_t(plan().buffers[b].elements()), 0);
        put(int(b), row_major_);
    }
    drop_staging();
    const int32_t none[2] = {};
    for (auto &e : executors_)
        if (count_ >= 0) e->upload(count_, none, sizeof none);
    if (scaler_ >= 0) put_loss_scaler({float(first_scale_)});
    steps_ = withheld_ = result_.withheld_in_a_row = 0;
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
