// Sequences of several documents, and padding, from tokens alone: tests/programs/packed.cpp.

#include "tests/parity/case.h"
#include "tests/support/goldens.h"

namespace cryolite::test {

namespace {

constexpr int context = 37, vocab = 11, end = 0, padding = 1;

struct Packed {
    explicit Packed(const std::string &flags = "")
        : bundle(compile_program(
              "tests/packed",
              fmt::format("--param vocab={} --param context={} --param batch=1 {}", vocab, context, flags),
              folder / "bundle")),
          device(make_device("cpu", 1)), trainer(bundle, *device) {
        reset();
    }
    void reset() {
        trainer.initialise(3);
        trainer.set("lr", 0.02);
        trainer.forget_steps();
    }
    std::vector<float> logits(const Batch &b) {
        const std::span<const float> y = trainer.predict(b, 1);
        return {y.begin(), y.end()};
    }
    double step(const Batch &b) {
        return trainer.step([&]() -> const Batch & { return b; }, 1);
    }
    std::vector<float> weights() {
        std::vector<float> all;
        for (size_t b = 0; b < trainer.plan().buffers.size(); b++) {
            const PlanBuffer &w = trainer.plan().buffers[b];
            if (w.role != Role::parameter) continue;
            std::vector<float> one(size_t(w.elements()));
            trainer.get(int(b), one);
            all.insert(all.end(), one.begin(), one.end());
        }
        return all;
    }
    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::unique_ptr<Device> device;
    Trainer trainer;
};

/// Tokens 2 ... vocab - 1, each predicting the next one.
Batch text() {
    Batch b;
    for (int t = 0; t < context; t++) {
        b.tokens.push_back(2 + t * t % (vocab - 2));
        b.targets.push_back(2 + (t + 1) * (t + 1) % (vocab - 2));
    }
    return b;
}
/// Two documents, the second from `begin` on.
constexpr int begin = 21;
Batch two_documents() {
    Batch b = text();
    b.tokens[begin] = end;
    return b;
}
bool equal_row(const std::vector<float> &a, const std::vector<float> &b, int row, int other) {
    return std::equal(a.begin() + row * vocab, a.begin() + (row + 1) * vocab, b.begin() + other * vocab);
}

}  // namespace

TEST_CASE("packed documents: a token of one changes nothing of what another predicts") {
    Packed p;
    const Batch b = two_documents();
    Batch other = b;
    other.tokens[5] = b.tokens[5] == 2 ? 3 : 2;
    const std::vector<float> before = p.logits(b), after = p.logits(other);
    for (int t = 0; t < context; t++) {
        CAPTURE(t);
        CHECK(equal_row(before, after, t, t) == (t < 5 || t >= begin));
    }
    // Without its boundary the second one sees it.
    Batch joined = b, joined_other = other;
    joined.tokens[begin] = joined_other.tokens[begin] = 4;
    CHECK(!equal_row(p.logits(joined), p.logits(joined_other), context - 1, context - 1));
}

TEST_CASE("packed documents: training on one learns nothing from another, and the loss of padded targets counts not") {
    Packed p;
    Batch b = two_documents();
    std::fill_n(b.targets.begin(), begin, padding);  // the first is context that nobody learns
    std::vector<double> losses;
    for (int s = 0; s < 20; s++) losses.push_back(p.step(b));
    CHECK(losses.back() < 0.5 * losses.front());
    const std::vector<float> learned = p.weights();
    b.tokens[5] = b.tokens[5] == 2 ? 3 : 2;
    p.reset();
    for (int s = 0; s < 20; s++) CHECK(p.step(b) == losses[size_t(s)]);
    CHECK(p.weights() == learned);
    b.tokens[begin + 1] = b.tokens[begin + 1] == 2 ? 3 : 2;
    p.reset();
    CHECK(p.step(b) != losses[0]);
}

TEST_CASE("padding: what comes after it predicts as if it were not there") {
    Packed p;
    const Batch b = text();
    Batch padded = b;
    constexpr int shift = 18;
    for (int t = 0; t < context; t++) {
        padded.tokens[size_t(t)] = t < shift ? padding : b.tokens[size_t(t - shift)];
        padded.targets[size_t(t)] = t < shift ? padding : b.targets[size_t(t - shift)];
    }
    const std::vector<float> plain = p.logits(b), behind = p.logits(padded);
    for (int t = 0; t < (context - shift) * vocab; t++)
        CHECK(behind[size_t(shift * vocab + t)] == doctest::Approx(plain[size_t(t)]).epsilon(1e-5));
    // Its loss is that of the positions that count.
    Batch counted = b;
    std::fill(counted.targets.begin() + context - shift, counted.targets.end(), padding);
    const double loss = p.trainer.evaluate(padded, 1);
    CHECK(loss == doctest::Approx(p.trainer.evaluate(counted, 1)).epsilon(1e-6));
    CHECK(loss != doctest::Approx(p.trainer.evaluate(b, 1)).epsilon(1e-3));
}

TEST_CASE("head norms: PyTorch's loss and gradients, of a step of SGD") {
    Packed p("--param head-norm=true --optimizer sgd");
    const json &golden = goldens().at("head norm");
    constexpr double rate = 0.25;
    p.trainer.set("lr", rate), p.trainer.set("beta1", 0), p.trainer.set("weight-decay", 0);
    std::map<std::string, std::vector<float>> before;
    for (auto &[name, gradient] : golden["gradients"].items()) {
        CAPTURE(name);
        const int buffer = p.trainer.plan().find(Role::parameter, name);
        REQUIRE(buffer >= 0);
        for (double v : formula(name, int64_t(gradient.size())))
            before[name].push_back(float(0.5 * v + (name.find("norm") != std::string::npos)));
        p.trainer.put(buffer, before[name]);
    }
    CHECK(p.step(two_documents()) == doctest::Approx(golden["loss"].get<double>()).epsilon(2e-6));
    for (auto &[name, gradient] : golden["gradients"].items()) {
        CAPTURE(name);
        std::vector<float> now(before[name].size());
        p.trainer.get(p.trainer.plan().find(Role::parameter, name), now);
        double far = 0, largest = 0;
        for (size_t i = 0; i < now.size(); i++) {
            const double expected = gradient[i];
            far = std::max(far, std::abs((double(before[name][i]) - now[i]) / rate - expected));
            largest = std::max(largest, std::abs(expected));
        }
        CHECK(largest > 1e-3);
        CHECK(far < 1e-5 * largest + 1e-6);
    }
}

}  // namespace cryolite::test
