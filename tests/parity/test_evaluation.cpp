// The loss of a padded batch: that of its examples alone, for any loss, against sums of doubles.

#include "tests/parity/losses_case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

double squared(const LossesCase &c, int examples) {
    double total = 0;
    for (int r = 0; r < examples * context; r++) {
        const std::vector<double> y = c.logits("head", r);
        for (int v = 0; v < c.vocab; v++) total += std::pow(y[size_t(v)] - (v == c.data.targets[size_t(r)]), 2);
    }
    return total / (examples * context);
}

/// Of the sums over an example's rows.
double squares(const LossesCase &c, int examples) {
    double total = 0;
    for (int e = 0; e < examples; e++) {
        std::vector<double> sums(size_t(c.vocab));
        for (int t = 0; t < context; t++) {
            const std::vector<double> y = c.logits("head", e * context + t);
            for (size_t v = 0; v < sums.size(); v++) sums[v] += y[v];
        }
        for (double s : sums) total += s * s;
    }
    return total / examples;
}

double expected(const LossesCase &c, int kind, int examples) {
    switch (kind) {
    case 2:
        return cross_entropy(c, "head", examples) + 0.3 * cross_entropy(c, "other", examples);
    case 3:
        return squared(c, examples);
    case 4:
        return cross_entropy(c, "head", examples) + squares(c, examples);
    case 6:
        return weighed(c, examples);
    case 7:
        return weighed(c, examples) + 0.3 * cross_entropy(c, "other", examples);
    case 8:
        return taught(c, examples);
    case 9:
        return masked(c, examples);
    default:
        return cross_entropy(c, "head", examples);
    }
}

void check(LossesCase &c, int kind) {
    CAPTURE(kind);
    double before = 0;
    for (int examples = 1; examples <= batch; examples++) {
        CAPTURE(examples);
        const double loss = c.trainer.evaluate(c.data, examples);
        CHECK(loss == doctest::Approx(expected(c, kind, examples)).epsilon(2e-6));
        CHECK(std::abs(loss - before) > 1e-4 * loss);  // each of them counts
        before = loss;
    }
}

}  // namespace

TEST_CASE("evaluation: cross-entropy, a weighted sum of two losses, one of a program's own, one with fewer rows, rows "
          "that count "
          "differently, a teacher, numbers of which some count nothing") {
    for (int kind : {1, 2, 3, 4, 6, 7, 8, 9}) {
        LossesCase c(kind);
        check(c, kind);
    }
}

TEST_CASE("evaluation: each named loss and each metric is told, of the examples that count") {
    for (int workers : {1, 2}) {
        LossesCase two(7, "", batch, workers);
        REQUIRE(two.trainer.plan().terms.size() == 2);
        for (int examples : {1, 3, batch}) {
            two.trainer.evaluate(two.data, examples);
            REQUIRE(two.trainer.evaluated_terms().size() == 2);
            CHECK(two.trainer.evaluated_terms()[0] == doctest::Approx(weighed(two, examples)).epsilon(2e-6));
            CHECK(two.trainer.evaluated_terms()[1] ==
                  doctest::Approx(cross_entropy(two, "other", examples)).epsilon(2e-6));
        }
    }
    LossesCase c(10, "--optimizer sgd"), plain(1, "--optimizer sgd");
    REQUIRE(c.trainer.plan().terms.size() == 2);
    CHECK(c.trainer.plan().terms[0].loss == "accuracy");
    CHECK(c.trainer.plan().terms[1].loss == "size");
    for (int examples : {1, 3, batch}) {
        int hits = 0;
        for (int r = 0; r < examples * context; r++) {
            const std::vector<double> y = c.logits("head", r);
            hits += y[size_t(c.data.targets[size_t(r)])] == *std::ranges::max_element(y);
        }
        CHECK(c.trainer.evaluate(c.data, examples) ==
              doctest::Approx(cross_entropy(c, "head", examples)).epsilon(2e-6));
        CHECK(c.trainer.evaluated_terms()[0] == doctest::Approx(double(hits) / (examples * context)).epsilon(2e-6));
        CHECK(c.trainer.evaluated_terms()[1] == doctest::Approx(squares(c, examples)).epsilon(2e-6));
        if (examples == batch) CHECK(hits > 0);
    }
    // A step tells them too, and learns nothing from them.
    const double size = squares(c, batch);
    for (LossesCase *one : {&c, &plain}) one->trainer.step([&]() -> const Batch & { return one->data; }, 1);
    CHECK(c.trainer.terms()[1] == doctest::Approx(size).epsilon(2e-6));
    std::vector<float> with(c.weights.at("head.weight").size()), without(with.size());
    c.trainer.get(c.trainer.plan().find(Role::parameter, "head.weight"), with);
    plain.trainer.get(plain.trainer.plan().find(Role::parameter, "head.weight"), without);
    CHECK(with == without);
    CHECK(with != c.weights.at("head.weight"));
}

TEST_CASE("evaluation: the head in blocks of rows") {
    for (int kind : {1, 3, 6}) {
        LossesCase c(kind, "--head-rows 32");
        REQUIRE(c.trainer.plan().plans.contains("predict"));  // it is
        check(c, kind);
    }
}

TEST_CASE("evaluation: two workers, whoever has the padding") {
    for (int kind : {2, 3, 7}) {
        LossesCase c(kind, "", batch, 2);
        check(c, kind);
    }
}

TEST_CASE("evaluation: in bf16 the loss of some examples is that of a batch of so many" * slow()) {
    for (int kind : {1, 2, 3, 6}) {
        CAPTURE(kind);
        LossesCase four(kind, "--precision bf16", batch, 1, 16), two(kind, "--precision bf16", 2, 1, 16);
        const double loss = four.trainer.evaluate(four.data, 2);
        CHECK(loss == doctest::Approx(two.trainer.evaluate(two.data, 2)).epsilon(1e-6));
        CHECK(loss == doctest::Approx(expected(four, kind, 2)).epsilon(1e-2));
    }
}

TEST_CASE(
    "evaluation: of a loss that may need all rows together whole batches are evaluated, others refused by its name") {
    LossesCase c(5);
    CHECK(c.trainer.evaluate(c.data, batch) == doctest::Approx(squared(c, batch)).epsilon(2e-6));
    CHECK_ERROR(
        c.trainer.evaluate(c.data, 3),
        "3 of the 4 examples of a batch cannot be evaluated: 'undeclared' (Undeclared) may make its number of all rows "
        "together: "
        "where it is the mean over the rows of its inputs of what each makes, let its mean_of_rows() return true");
    LossesCase two(5, "", batch, 2);
    two.trainer.check_examples(2);  // the other worker has nothing but padding
    CHECK_ERROR(two.trainer.check_examples(3), "'undeclared' (Undeclared)");
}

TEST_CASE("evaluation: where rows count differently, batches of a larger whole add up to its mean") {
    LossesCase c(6), whole(6, "", 3 * batch);
    RowWeights weights(c.trainer.plan());
    const int sizes[] = {batch, batch, 3};
    for (int b = 0; b < 3; b++) c.trainer.count_rows(weights, c.part(b * batch, batch), sizes[b]);
    double total = 0;
    for (int b = 0; b < 3; b++) total += sizes[b] * c.trainer.evaluate(c.part(b * batch, batch), sizes[b], &weights);
    CHECK(total / 11 == doctest::Approx(weighed(whole, 11)).epsilon(2e-6));
}

}  // namespace cryolite::test
