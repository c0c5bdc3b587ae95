// Rows that count differently, ignored targets and classes with weights: a step is that of its whole batch, however
// it is cut.

#include "tests/parity/losses_case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

constexpr int all = 12;

struct Way {
    const char *flags;
    int accumulate = 1, workers = 1;
};

struct Outcome {
    std::vector<double> losses;
    std::map<std::string, std::vector<float>> weights;
};

/// Two steps on the same twelve examples.
Outcome train(int kind, const Way &way) {
    const int examples = all / way.accumulate;
    LossesCase c(kind, std::string("--optimizer sgd ") + way.flags, examples, way.workers);
    c.trainer.set("lr", 0.05), c.trainer.set("beta1", 0.0);
    Outcome t;
    for (int s = 0; s < 2; s++) {
        int at = 0;
        Batch now;
        auto next = [&]() -> const Batch & { return now = c.part(examples * at++, examples); };
        t.losses.push_back(c.trainer.step(next, way.accumulate));
    }
    for (auto &[name, w] : c.weights) {
        t.weights[name].resize(w.size());
        c.trainer.get(c.trainer.plan().find(Role::parameter, name), t.weights[name]);
    }
    return t;
}

}  // namespace

TEST_CASE("weighed rows: the loss and the updates of a step are those of its whole batch, in micro-batches, on "
          "workers, in blocks of rows" *
          slow()) {
    for (int kind : {6, 7, 9}) {
        CAPTURE(kind);
        LossesCase reference(kind, "--optimizer sgd", all);
        const Outcome whole = train(kind, {""});
        const double of_others = kind == 7 ? 0.3 * cross_entropy(reference, "other", all) : 0;
        CHECK(whole.losses[0] ==
              doctest::Approx(kind == 9 ? masked(reference, all) : weighed(reference, all) + of_others).epsilon(2e-6));
        CHECK(whole.losses[1] < whole.losses[0]);
        std::vector<Way> ways = {{"--accumulate", 3}, {"", 1, 2}, {"--accumulate", 3, 2}};
        if (kind == 6) ways.push_back({"--head-rows 32"});
        for (const Way &way : ways) {
            CAPTURE(way.flags);
            CAPTURE(way.workers);
            const Outcome t = train(kind, way);
            for (size_t s = 0; s < 2; s++) CHECK(t.losses[s] == doctest::Approx(whole.losses[s]).epsilon(2e-6));
            for (auto &[name, w] : whole.weights) {
                CAPTURE(name);
                double far = 0, changed = 0;
                for (size_t i = 0; i < w.size(); i++) {
                    far = std::max(far, double(std::abs(w[i] - t.weights.at(name)[i])));
                    changed = std::max(changed, double(std::abs(w[i] - reference.weights.at(name)[i])));
                }
                CHECK(changed > 1e-4);
                CHECK(far < 1e-5 * changed + 1e-7);
            }
        }
    }
}

TEST_CASE("the losses that a loss is made of are told by name, over micro-batches and workers") {
    for (const Way &way : {Way{""}, Way{"--accumulate", 3, 2}}) {
        const int examples = all / way.accumulate;
        LossesCase c(7, std::string("--optimizer sgd ") + way.flags, examples, way.workers),
            whole(7, "--optimizer sgd", all);
        int at = 0;
        Batch now;
        c.trainer.step([&]() -> const Batch & { return now = c.part(examples * at++, examples); }, way.accumulate);
        REQUIRE(c.trainer.plan().terms.size() == 2);
        CHECK(c.trainer.plan().terms[0].loss == "weighed");
        CHECK(c.trainer.terms()[0] == doctest::Approx(weighed(whole, all)).epsilon(2e-6));
        CHECK(c.trainer.plan().terms[1].loss == "other_loss");
        CHECK(c.trainer.terms()[1] == doctest::Approx(cross_entropy(whole, "other", all)).epsilon(2e-6));
    }
    LossesCase one(1);
    CHECK(one.trainer.plan().terms.empty());
}

TEST_CASE("weighed rows: where all are ignored the loss is 0, and no weight changes") {
    LossesCase c(6, "--optimizer sgd");
    std::ranges::fill(c.data.targets, 3);
    CHECK(c.trainer.step([&]() -> const Batch & { return c.data; }, 1) == 0);
    CHECK(c.trainer.evaluate(c.data, 3) == 0);
    for (auto &[name, w] : c.weights) {
        std::vector<float> now(w.size());
        c.trainer.get(c.trainer.plan().find(Role::parameter, name), now);
        CHECK(now == w);
    }
}

TEST_CASE("weighed rows: a target that is no class is refused before anything is learned from it") {
    for (auto [kind, loss, ignores] : {std::tuple{6, "weighed", "3"}, {1, "loss", "none"}}) {
        LossesCase c(kind, "--optimizer sgd");
        for (int wrong : {-1, 11}) {
            c.data.targets[5] = wrong;
            const std::string words =
                fmt::format("the target of row 5 of a batch is {}, but '{}' has 11 classes, 0 to 10, and ignores {}",
                            wrong, loss, ignores);
            CHECK_ERROR(c.trainer.step([&]() -> const Batch & { return c.data; }, 1), words);
            CHECK_ERROR(c.trainer.evaluate(c.data, 1), words);
        }
        CHECK(c.trainer.steps() == 0);
        std::vector<float> now(c.weights.at("head.weight").size());
        c.trainer.get(c.trainer.plan().find(Role::parameter, "head.weight"), now);
        CHECK(now == c.weights.at("head.weight"));
    }
}

}  // namespace cryolite::test
