// The exponential moving averages of weights that an optimizer keeps as its state "ema": dsl/optimizers/averaged.h.

#include <cmath>
#include <map>

#include "runtime/train/trainer.h"

namespace cryolite {

void Trainer::with_averages(const std::function<void()> &use) {
    if (!averages()) fail("the step keeps no averages of its weights: compile it with --ema");
    flush();
    int32_t counts[2] = {int32_t(steps_), 0};
    if (count_ >= 0) executor().download(counts, count_, sizeof counts);
    if (counts[0] == 0) return use();
    // The average began at 0: the factor corrects its bias.
    const double scale = 1 / (1 - std::pow(scalars_[size_t(plan().scalar("ema"))], counts[0]));
    std::map<int, std::vector<float>> weights;
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        const PlanBuffer &average = plan().buffers[b];
        if (average.role != Role::state || !average.name.ends_with(".ema")) continue;
        const int w = average.parameter;
        row_major_.resize(size_t(average.elements()));
        get(int(b), row_major_);
        processes_.broadcast(std::as_writable_bytes(std::span(row_major_)));  // rank 0 has all of it
        for (float &x : row_major_) x = float(x * scale);
        std::vector<float> &weight = weights[w];
        weight.resize(row_major_.size());
        get(w, weight);
        put(w, row_major_);
    }
    auto restore = [&] {
        for (auto &[w, values] : weights) put(w, values);
        drop_staging();
    };
    try {
        use();
    } catch (...) {
        restore();
        throw;
    }
    restore();
}

std::string Trainer::write_averages(const fs::path &path) {
    std::string digest;
    with_averages([&] { digest = write_parameters(path); });
    return digest;
}

}  // namespace cryolite
