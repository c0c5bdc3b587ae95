#pragma once
// The model of tests/programs/losses.cpp, with weights and data from a formula, beside what doubles make of it.

#include "tests/parity/case.h"

namespace cryolite::test {

inline constexpr int context = 12, width = 16, batch = 4;

struct LossesCase {
    LossesCase(int kind, const std::string &flags = "", int examples = batch, int workers = 1, int classes = 11)
        : vocab(classes),
          bundle(compile_program(
              "tests/losses",
              fmt::format("--param kind={} --param vocab={} --param context={} --param batch={} --workers {} {}", kind,
                          vocab, context, examples / workers, workers, flags),
              folder / "bundle")),
          devices(workers), trainer(bundle, pointers(), processes()) {
        for (const PlanBuffer &b : trainer.plan().buffers) {
            if (b.role != Role::parameter) continue;
            std::vector<float> &w = weights[b.name];
            for (int64_t i = 0; i < b.elements(); i++) w.push_back(5 * formula_weight(b.name, uint64_t(i)));
            trainer.put(trainer.plan().find(Role::parameter, b.name), w);
        }
        data = part(0, examples);
    }
    /// Examples begin ... begin + count - 1 of the data.
    Batch part(int begin, int count) const {
        Batch b;
        for (int i = begin * context; i < (begin + count) * context; i++) {
            b.tokens.push_back(int32_t(formula_bits("tokens", uint64_t(i)) % uint64_t(vocab)));
            b.targets.push_back(int32_t(formula_bits("targets", uint64_t(i)) % uint64_t(vocab)));
        }
        return b;
    }
    std::vector<Device *> pointers() {
        std::vector<Device *> list;
        for (auto &d : devices) list.push_back((d = make_device("cpu", 1)).get());
        return list;
    }
    /// A head's output for a row.
    std::vector<double> logits(const std::string &head, int row) const {
        const std::vector<float> &W = weights.at(head + ".weight"), &b = weights.at(head + ".bias"),
                                 &table = weights.at("token.weight");
        std::vector<double> y(b.begin(), b.end());
        for (int i = 0; i < width; i++)
            for (int o = 0; o < vocab; o++)
                y[size_t(o)] += double(W[size_t(i * vocab + o)]) * table[size_t(data.tokens[size_t(row)] * width + i)];
        return y;
    }

    const int vocab;
    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::vector<std::unique_ptr<Device>> devices;
    Trainer trainer;
    Batch data;
    std::map<std::string, std::vector<float>> weights;
};

/// Mean over rows of log(sum exp) - x(target).
inline double cross_entropy(const LossesCase &c, const std::string &head, int examples) {
    double total = 0;
    for (int r = 0; r < examples * context; r++) {
        const std::vector<double> y = c.logits(head, r);
        double sum = 0;
        for (double v : y) sum += std::exp(v);
        total += std::log(sum) - y[size_t(c.data.targets[size_t(r)])];
    }
    return total / (examples * context);
}

/// The options of `weighed` in the program.
inline double class_weight(int v) { return 0.5 + 0.25 * (v % 5); }

inline double weighed(const LossesCase &c, int examples) {
    constexpr int ignored = 3;
    constexpr double smoothing = 0.1;
    double total = 0, counted = 0;
    for (int r = 0; r < examples * context; r++) {
        const int target = c.data.targets[size_t(r)];
        if (target == ignored) continue;
        const std::vector<double> y = c.logits("head", r);
        double sum = 0;
        for (double v : y) sum += std::exp(v);
        for (int v = 0; v < c.vocab; v++) {
            const double share = (v == target ? 1 - smoothing : 0) + smoothing / c.vocab;
            total += share * class_weight(v) * (std::log(sum) - y[size_t(v)]);
        }
        counted += class_weight(target);
    }
    return total / counted;
}

/// Of a head that learns from another: KL divergence at temperature 2, Huber's loss and yes or no, beside its
/// teacher's own.
inline double taught(const LossesCase &c, int examples) {
    double total = 0;
    for (int r = 0; r < examples * context; r++) {
        const std::vector<double> y = c.logits("head", r), z = c.logits("other", r);
        double of_y = 0, of_z = 0;
        for (size_t v = 0; v < y.size(); v++) of_y += std::exp(y[v] / 2), of_z += std::exp(z[v] / 2);
        for (size_t v = 0; v < y.size(); v++) {
            const double p = std::exp(z[v] / 2) / of_z, far = std::abs(y[v] - z[v]);
            total += 4 * p * (std::log(p) - y[v] / 2 + std::log(of_y));
            total += (far <= 0.25 ? far * far / 2 : 0.25 * (far - 0.125)) / c.vocab;
            total += (std::max(y[v], 0.0) - y[v] * z[v] + std::log1p(std::exp(-std::abs(y[v])))) / c.vocab;
        }
    }
    return total / (examples * context) + cross_entropy(c, "other", examples);
}

/// Of the targets as numbers, where they are not 3: Huber's loss, half of yes or no, squares; and a teacher's, whose
/// own loss is beside it.
inline double masked(const LossesCase &c, int examples) {
    const std::vector<float> &W = c.weights.at("single.weight"), &table = c.weights.at("token.weight");
    double total = 0, counted = 0;
    for (int r = 0; r < examples * context; r++) {
        const int target = c.data.targets[size_t(r)];
        if (target == 3) continue;
        counted++;
        double x = c.weights.at("single.bias")[0];
        for (int i = 0; i < width; i++) x += double(W[size_t(i)]) * table[size_t(c.data.tokens[size_t(r)] * width + i)];
        const double far = std::abs(x - target);
        total += far <= 0.25 ? far * far / 2 : 0.25 * (far - 0.125);
        total += (std::max(x, 0.0) - x * target + std::log1p(std::exp(-std::abs(x)))) / 2;
        total += far * far;
        const std::vector<double> y = c.logits("head", r), z = c.logits("other", r);
        double of_y = 0, of_z = 0;
        for (size_t v = 0; v < y.size(); v++) of_y += std::exp(y[v] / 2), of_z += std::exp(z[v] / 2);
        for (size_t v = 0; v < y.size(); v++)
            total += 4 * std::exp(z[v] / 2) / of_z * (z[v] / 2 - std::log(of_z) - y[v] / 2 + std::log(of_y));
    }
    return total / counted + cross_entropy(c, "other", examples);
}

}  // namespace cryolite::test
