// The losses of a random model: one of its head's output, and others of values that it computes before.

#include "dsl/layers/embedding.h"
#include "dsl/layers/linear.h"
#include "dsl/losses/distillation.h"
#include "dsl/losses/huber.h"
#include "dsl/tensor.h"
#include "generators/fuzz/random_model.h"

namespace cryolite::fuzz {

namespace {

CrossEntropyOptions options_of(int how, int classes) {
    CrossEntropyOptions o;
    if (how == 1 || how == 3) o.ignored = 3;
    if (how == 2) o.smoothing = 0.1;
    if (how >= 2)
        for (int k = 0; k < classes; k++) o.class_weights.push_back(0.5f + 0.25f * float(k % 5));
    return o;
}

std::string text_of(const CrossEntropyOptions &o) {
    std::string weights;
    for (float w : o.class_weights)
        weights += fmt::format("{}{}f", weights.empty() ? "" : ", ", w == 1 ? "1.0" : fmt::format("{}", w));
    return fmt::format("CrossEntropyOptions{{.ignored = {}, .smoothing = {}, .class_weights = {{{}}}}}",
                       o.ignored ? std::to_string(*o.ignored) : "std::nullopt", o.smoothing, weights);
}

/// A loss of two values, times a constant.
template <typename L> auto term(L &l, double weight, int x, int y) {
    return [&l, weight, x, y](const std::vector<Tensor> &v) {
        const Tensor one = l(v[size_t(x)], v[size_t(y)]);
        return weight == 1 ? one : weight * one;
    };
}

}  // namespace

void RandomModel::add_terms(int x, Choices &c) {
    const int y = int(channels.size()) - 1, how = c.take(5), extra = c.take(6), width = channels[size_t(x)];
    int others = y, targets = 0;
    auto add_term = [&](auto &l, const std::string &type, const std::string &given, double weight, int a, int b) {
        names[&l] = fmt::format("loss{}", terms.size());
        declarations[&l] = fmt::format("{} {}{{\"{}\"{}}};", type, name(l), name(l), given);
        terms.push_back({fmt::format("{}{}(v[{}], {})", weight == 1 ? "" : fmt::format("{} * ", weight), name(l), a,
                                     b == targets ? "targets" : fmt::format("v[{}]", b)),
                         term(l, weight, a, b), &l, a});
    };
    auto own = [&](auto layer) -> auto & {
        auto &l = *layer;
        layers.push_back(std::move(layer));
        return l;
    };
    if (extra == 1 || extra == 2) {
        const int hidden = earlier(width, c);
        others = call(linear(width, vocab, c), hidden);
    }
    targets = int(channels.size());
    if (kind == numbers) {
        if (how % 2)
            add_term(own(std::make_unique<Huber>("loss0", 0.5)), "Huber", ", 0.5", 1, y, targets);
        else
            add_term(own(std::make_unique<MeanSquaredError>("loss0")), "MeanSquaredError", "", 1, y, targets);
    } else {
        const CrossEntropyOptions o = options_of(how, vocab);
        add_term(own(std::make_unique<CrossEntropy>("loss0", o)), "CrossEntropy", ", " + text_of(o), 1, y, targets);
    }
    criterion = layers.back().get();
    if (extra == 1 && kind != numbers)
        add_term(own(std::make_unique<CrossEntropy>("loss1")), "CrossEntropy", "", 0.3, others, targets);
    else if (extra == 1)
        add_term(own(std::make_unique<Huber>("loss1", 0.5)), "Huber", ", 0.5", 0.3, others, targets);
    else if (extra == 2)
        add_term(own(std::make_unique<Distillation>("loss1", 2)), "Distillation", ", 2.0", 0.5, others, y);
    else if (extra == 3)
        add_term(own(std::make_unique<MeanSquaredError>("loss1")), "MeanSquaredError", "", 0.25, x, earlier(width, c));
}

}  // namespace cryolite::fuzz
