#include "apps/cryolite/endings/replay.h"

#include "apps/cryolite/session/evaluate.h"

namespace cryolite {

std::string find_not_finite(Trainer &trainer, const RunData &data, const TrainSettings &s, const ReplayedSteps &r,
                            const std::function<bool(uint64_t step)> &stop) {
    trainer.watch_values();
    trainer.set_steps(r.done);
    Loader loader(data.source(s), r.position);
    for (uint64_t step = r.done + 1; step <= r.last; step++) {
        if (stop(step)) return "";
        trainer.set("lr", s.rate.at(step - 1));
        trainer.step([&]() -> const Batch & { return loader.next(); }, s.accumulate);
        if (const auto found = trainer.first_not_finite())
            return fmt::format("{}, in step {}", found->words(trainer.plan()), step);
    }
    if (!r.evaluate) return "";
    evaluate(trainer, data, s, r.last, [&](size_t, size_t) { return stop(r.last) || trainer.first_not_finite(); });
    const auto found = trainer.first_not_finite();
    return found ? fmt::format("{}, in the evaluation after step {}", found->words(trainer.plan()), r.last) : "";
}

}  // namespace cryolite
