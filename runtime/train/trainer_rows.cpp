// The trainer's part that tells kernels the weights of a batch's rows and the mode of a pass.

#include <array>

#include "runtime/train/trainer.h"

namespace cryolite {

void Trainer::upload_constants(Executor &e) const {
    for (size_t b = 0; b < plan().buffers.size(); b++)
        if (const auto &elements = plan().buffers[b].constant; !elements.empty())
            e.upload(int(b), elements.data(), elements.size() * sizeof(float));
}

/// Checks a micro-batch and counts its rows, where no other micro-batch has to be counted before the step.
void Trainer::count(const Batch &batch) {
    check_size(batch);
    weights_.clear();
    count_rows(weights_, batch, this->batch());
}

/// Draws all micro-batches of a step before its first gradient, where their rows have different weights, or where a
/// worker goes through them once for each of its parts. False: neither is so.
bool Trainer::draw_ahead(const std::function<const Batch &()> &next, int accumulate) {
    if (accumulate == 1 || !(weights_.differ() || parts() > 1)) return false;
    weights_.clear();
    held_.resize(size_t(accumulate));
    for (Batch &held : held_) {
        held = next();
        check_size(held);
        count_rows(weights_, held, batch());
    }
    return true;
}

void Trainer::tell_mean_weights(int worker, const RowWeights &weights) {
    for (size_t k = 0; k < plan().ids.size(); k++)
        if (const int input = plan().ids[k].mean_weight; input >= 0) {
            const float mean = weights.mean(k);
            executors_[size_t(worker)]->upload(input, &mean, sizeof mean);
        }
}

/// `parts`: equal parts of the step's batch that come before this worker's.
void Trainer::tell_mode(int worker, bool training, int64_t parts) {
    if (mode_ < 0) return;
    const std::array words = {uint32_t(training), uint32_t(seed_), uint32_t(seed_ >> 32), uint32_t(steps_),
                              uint32_t(parts)};
    executors_[size_t(worker)]->upload(mode_, words.data(), sizeof words);
}

void Trainer::count_rows(RowWeights &weights, const Batch &batch, int examples) const {
    const size_t n = plan().ids.empty() ? 0 : size_t(examples * targets_per_example());
    predicts_numbers() ? weights.add(std::span(batch.numbers).first(n))
                       : weights.add(std::span(batch.targets).first(n));
}

}  // namespace cryolite
