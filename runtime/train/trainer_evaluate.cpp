// Evaluation and prediction: the forward pass on a batch of which some examples may be padding.

#include <algorithm>

#include "runtime/io/error.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// Runs the forward pass, and then "evaluate" for the loss or "predict" for the output, where the bundle has that plan.
void Trainer::run_head(int worker, const char *head) {
    run_all(worker, entry::forward);
    if (executors_[size_t(worker)]->has(head)) run_all(worker, head);
}

int Trainer::examples_of(int part, int examples) const {
    return std::clamp(examples - part * own_batch(), 0, own_batch());
}

void Trainer::check_examples(int examples) const {
    if (plan().evaluation.loss >= 0 || examples % own_batch() == 0) return;
    fail("{} of the {} examples of a batch cannot be evaluated: {}", examples, batch(), plan().evaluation.hindrance);
}

double Trainer::evaluate(const Batch &batch, int examples, const RowWeights *among) {
    flush();
    check_size(batch);
    check_examples(examples);
    if (!among) {
        weights_.clear();
        count_rows(weights_, batch, examples);
    }
    const bool weighted = plan().evaluation.loss >= 0;
    const std::vector<int> told = evaluated_buffers();
    evaluated_.assign(told.size() * values_.size(), 0.0);
    all([&](int w) {
        for (int k = 0; k < parts(); k++) {
            const int part = part_of(w, k), own = examples_of(part, examples);
            if (own == 0) return;
            feed(w, batch, part);
            tell_mean_weights(w, among ? *among : weights_);
            tell_mode(w, false);
            if (weighted) weigh_rows(w, own);
            run_head(w, entry::evaluate);
            for (size_t t = 0; t < told.size(); t++)
                evaluated_[t * values_.size() + size_t(part)] = own * loss(w, told[t]);
        }
    });
    std::vector<double> means;
    for (auto at = evaluated_.begin(); at != evaluated_.end(); at += ptrdiff_t(values_.size())) {
        std::copy_n(at, values_.size(), values_.begin());
        means.push_back(sum_of_parts() / examples);
    }
    evaluated_terms_.assign(means.begin() + 1, means.end());
    return means[0];
}

/// The buffers that evaluation reads: the loss, then its terms.
std::vector<int> Trainer::evaluated_buffers() const {
    const Plan::Evaluation &e = plan().evaluation;
    std::vector<int> all = {e.loss >= 0 ? e.loss : plan().loss};
    if (e.loss >= 0) all.insert(all.end(), e.terms.begin(), e.terms.end());
    for (size_t t = 0; e.loss < 0 && t < plan().terms.size(); t++) all.push_back(plan().terms[t].buffer);
    return all;
}

/// Gives equal weights to the rows of a worker's first examples, and 0 to padding.
void Trainer::weigh_rows(int worker, int examples) {
    const int counting = examples * targets_per_example();
    std::vector<float> weights(size_t(own_batch() * targets_per_example()));
    std::fill_n(weights.begin(), counting, float(1.0 / counting));
    executors_[size_t(worker)]->upload(plan().evaluation.row_weights, weights.data(), weights.size() * sizeof(float));
}

std::span<const float> Trainer::predict(const Batch &batch, int examples) {
    flush();
    check_size(batch);
    const int parts = (examples + own_batch() - 1) / own_batch(), here = int(executors_.size());
    const size_t each = size_t(plan().buffers[size_t(plan().output)].elements());
    output_.resize(size_t(examples * rows_per_example()) * size_t(classes()));
    all([&](int w) {
        for (int part = w; part < parts; part += here) {
            feed(w, batch, part);
            tell_mode(w, false);
            run_head(w, entry::predict);
            const size_t begin = size_t(part) * each;  // the padding of the last part is not copied
            fetch_output(w, std::span(output_).subspan(begin, std::min(each, output_.size() - begin)));
        }
    });
    return output_;
}

void Trainer::fetch_output(int worker, std::span<float> to) {
    executors_[size_t(worker)]->download(to.data(), plan().output, to.size_bytes());
}

}  // namespace cryolite
