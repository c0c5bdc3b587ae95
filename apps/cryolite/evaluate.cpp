#include "apps/cryolite/evaluate.h"

#include <algorithm>

#include "runtime/error.h"

namespace cryolite {

namespace {

int right_answers(std::span<const float> output, const Batch &batch, int rows, int classes) {
    int right = 0;
    for (int r = 0; r < rows; r++) {
        const auto row = output.subspan(size_t(r) * size_t(classes), size_t(classes));
        right +=
            int(std::max_element(row.begin(), row.end()) - row.begin()) == batch.targets[size_t(r)];
    }
    return right;
}

/// Over `parts`: Windows or Rows.
template <typename Parts>
std::optional<EvalEvent> over(const Parts &parts, Trainer &trainer, bool classify,
                              const std::function<bool()> &stop) {
    EvalEvent e;
    Batch batch;
    double total = 0;
    uint64_t right = 0;
    for (size_t i = 0; i < parts.batches(); i++) {
        if (stop()) return std::nullopt;
        const int rows = parts.fill(i, batch);
        total += trainer.evaluate(batch, rows) * rows;
        if (classify)
            right +=
                uint64_t(right_answers(trainer.predict(batch, rows), batch, rows, trainer.classes()));
    }
    e.val_loss = total / double(parts.count());
    if (classify) e.accuracy = double(right) / double(parts.count());
    return e;
}

Windows windows(const Trainer &trainer, const RunData &data) {
    return Windows(data.validation, {trainer.batch(), trainer.rows_per_example()});
}

}  // namespace

void check_evaluation(const Trainer &trainer, const RunData &data, const TrainSettings &s) {
    if (!s.eval_every || !data.has_validation()) return;
    const size_t count = s.text ? windows(trainer, data).count() : data.held_out.rows();
    try {
        trainer.check_examples(int(count % size_t(trainer.batch())));
    } catch (const Error &e) {
        fail("{}; or take a --batch that divides the {} examples to validate, or --eval-every 0", e.what(), count);
    }
}

std::optional<EvalEvent> evaluate(Trainer &trainer, const RunData &data, const TrainSettings &s,
                                  uint64_t step, const std::function<bool()> &stop) {
    std::optional<EvalEvent> e =
        s.text ? over(windows(trainer, data), trainer, false, stop)
               : over(Rows(data.held_out, trainer.batch(), data.scale), trainer, true, stop);
    if (e) e->step = step;
    return e;
}

}  // namespace cryolite
