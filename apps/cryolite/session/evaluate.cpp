#include "apps/cryolite/session/evaluate.h"

#include <algorithm>
#include <cmath>

#include "runtime/files/confusion.h"
#include "runtime/io/error.h"
#include "runtime/system/trace.h"

namespace cryolite {

namespace {

/// What is measured beside the loss: correct answers, or errors of predicted numbers.
class Metric {
public:
    explicit Metric(Trainer &trainer, bool of_text) : trainer_(trainer), of_text_(of_text) {}

    void add(const Batch &batch, int rows) {
        if (of_text_) return;
        const auto output = trainer_.predict(batch, rows);
        if (trainer_.predicts_numbers())
            add_errors(output, batch);
        else
            add_answers(output, batch, rows);
    }
    void tell(EvalEvent &e) const {
        if (of_text_) return;
        if (!trainer_.predicts_numbers()) {
            e.accuracy = double(right_) / double(std::max(labelled_, uint64_t{1}));
            e.classes = trainer_.classes(), e.confusion = confusion_;
            return;
        }
        e.rmse = std::sqrt(squared_ / n_);
        if (spread_ > 0) e.r2 = 1 - squared_ / spread_;
    }

private:
    Trainer &trainer_;
    const bool of_text_;
    uint64_t right_ = 0, labelled_ = 0;
    std::vector<uint64_t> confusion_;  ///< by label and answer
    double n_ = 0, squared_ = 0;       ///< numbers, and the sum of their squared errors
    double spread_ = 0;                ///< the sum of squared distances of targets from their mean
    std::vector<double> rows_, mean_;  ///< of each output: targets so far, and their mean

    void add_answers(std::span<const float> output, const Batch &batch, int rows) {
        const auto classes = size_t(trainer_.classes());
        for (size_t r = 0; r < size_t(rows); r++) {
            if (batch.targets[r] == no_label) continue;
            labelled_++;
            const auto row = output.subspan(r * classes, classes);
            const auto answer = size_t(std::ranges::max_element(row) - row.begin()), label = size_t(batch.targets[r]);
            right_ += answer == label;
            if (classes <= size_t(most_confused))
                confusion_.resize(classes * classes), confusion_[label * classes + answer]++;
        }
    }
    /// Welford's algorithm, as in a plain sum of squares of large targets the variance is lost to rounding.
    void add_errors(std::span<const float> output, const Batch &batch) {
        const auto outputs = size_t(trainer_.classes());
        rows_.resize(outputs), mean_.resize(outputs);
        for (size_t i = 0; i < output.size(); i++, n_++) {
            const double target = batch.numbers[i], error = output[i] - target, from_mean = target - mean_[i % outputs];
            squared_ += error * error;
            mean_[i % outputs] += from_mean / ++rows_[i % outputs];
            spread_ += from_mean * (target - mean_[i % outputs]);
        }
    }
};

/// Evaluates all of `parts`: Windows or Rows.
template <typename Parts>
std::optional<EvalEvent> over(const Parts &parts, Trainer &trainer, bool text, const std::function<bool()> &stop) {
    EvalEvent e;
    Batch batch;
    double total = 0;
    std::vector<double> terms;
    // If rows have different weights, the mean is over all rows of the split, so they are counted first.
    RowWeights weights(trainer.plan());
    for (size_t i = 0; weights.differ() && i < parts.batches(); i++) {
        const int rows = parts.fill(i, batch);
        trainer.count_rows(weights, batch, rows);
    }
    Metric metric(trainer, text);
    std::optional<TracePause> pause;
    for (size_t i = 0; i < parts.batches(); i++) {
        if (stop()) return std::nullopt;
        if (i == 2) pause.emplace();  // all batches are alike, and would fill a trace
        const int rows = parts.fill(i, batch);
        total += trainer.evaluate(batch, rows, weights.differ() ? &weights : nullptr) * rows;
        terms.resize(trainer.evaluated_terms().size());
        for (size_t t = 0; t < terms.size(); t++) terms[t] += trainer.evaluated_terms()[t] * rows;
        metric.add(batch, rows);
    }
    e.val_loss = total / double(parts.count());
    for (size_t t = 0; t < terms.size(); t++)
        e.losses.emplace_back(trainer.plan().terms[t].loss, terms[t] / double(parts.count()));
    metric.tell(e);
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

std::optional<EvalEvent> evaluate(Trainer &trainer, const RunData &data, const TrainSettings &s, uint64_t step,
                                  const std::function<bool()> &stop) {
    std::optional<EvalEvent> e = s.text ? over(windows(trainer, data), trainer, true, stop)
                                        : over(Rows(data.held_out, trainer.batch(), data.scale), trainer, false, stop);
    if (e) e->step = step;
    return e;
}

}  // namespace cryolite
