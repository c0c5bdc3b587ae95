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

/// How many batches are evaluated, of all.
size_t evaluated_batches(const TrainSettings &s, size_t all) {
    return s.eval_batches ? std::min<size_t>(s.eval_batches, all) : all;
}

/// Evaluates `parts`, Windows or Rows: as many batches of them as --eval-batches says.
template <typename Parts> std::optional<EvalEvent> over(const Parts &parts, Trainer &trainer, const TrainSettings &s,
                                                        const StopEvaluating &stop) {
    const size_t all = parts.batches(), n = evaluated_batches(s, all);
    EvalEvent e;
    if (n < all) e.batches = n, e.of_batches = all;
    Batch batch;
    double total = 0, evaluated = 0;
    std::vector<double> terms;
    auto fill = [&](size_t i) { return parts.fill(i * all / n, batch); };
    // If rows have different weights, the mean is over all rows that are evaluated, so they are counted first.
    RowWeights weights(trainer.plan());
    for (size_t i = 0; weights.differ() && i < n; i++) {
        const int rows = fill(i);
        trainer.count_rows(weights, batch, rows);
    }
    Metric metric(trainer, s.text);
    std::optional<TracePause> pause;
    for (size_t i = 0; i < n; i++) {
        if (stop(i, n)) return std::nullopt;
        if (i == 2) pause.emplace();  // all batches are alike, and would fill a trace
        const int rows = fill(i);
        evaluated += rows;
        total += trainer.evaluate(batch, rows, weights.differ() ? &weights : nullptr) * rows;
        terms.resize(trainer.evaluated_terms().size());
        for (size_t t = 0; t < terms.size(); t++) terms[t] += trainer.evaluated_terms()[t] * rows;
        metric.add(batch, rows);
    }
    e.val_loss = total / evaluated;
    for (size_t t = 0; t < terms.size(); t++) e.losses.emplace_back(trainer.plan().terms[t].loss, terms[t] / evaluated);
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
    const size_t batch = size_t(trainer.batch()), batches = (count + batch - 1) / batch;
    if (evaluated_batches(s, batches) < batches) return;  // the last batch, which may be shorter, is left out
    try {
        trainer.check_examples(int(count % batch));
    } catch (const Error &e) {
        const std::string fewer = batches > 1 ? fmt::format(", or --eval-batches {}", batches - 1) : "";
        fail("{}; or take a --batch that divides the {} examples to validate{}, or --eval-every 0", e.what(), count,
             fewer);
    }
}

std::optional<EvalEvent> evaluate(Trainer &trainer, const RunData &data, const TrainSettings &s, uint64_t step,
                                  const StopEvaluating &stop) {
    std::optional<EvalEvent> e = s.text ? over(windows(trainer, data), trainer, s, stop)
                                        : over(Rows(data.held_out, trainer.batch(), data.scale), trainer, s, stop);
    if (e) e->step = step, e->of_averages = s.evaluate_ema;
    return e;
}

}  // namespace cryolite
