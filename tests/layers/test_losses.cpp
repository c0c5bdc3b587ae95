// Losses of numbers, of yes and no, and of a teacher's probabilities.

#include <cmath>

#include "dsl/losses/accuracy.h"
#include "dsl/losses/binary_cross_entropy.h"
#include "dsl/losses/distillation.h"
#include "dsl/losses/huber.h"
#include "dsl/losses/mean_squared_error.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("Huber: squared near the target, linear far off; gradients of both inputs") {
    Huber layer("loss", 0.75);
    const std::vector<double> x = {1, 2, -3, 0.5, 0, 7}, t = {1.5, 2, -1, 0, -0.75, 7.25};
    double expected = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double e = std::abs(x[i] - t[i]);
        expected += (e <= 0.75 ? e * e / 2 : 0.75 * (e - 0.375)) / 6;
    }
    CHECK(output_of(LayerTester(layer).input({3, 2}, x).input({3, 2}, t))[0] ==
          doctest::Approx(expected).epsilon(1e-12));
    check_gradients(LayerTester(layer).input({5, 7}).input({5, 7}));
    check_gradients(LayerTester(layer).input({3, 2, 5}).input({3, 2, 5}));
    check_gradients(LayerTester(layer).input({1, 1}).input({1, 1}));
    CHECK_ERROR(Huber("loss", 0), "[loss] has a delta of 0, expected a positive number");
    CHECK_ERROR(layer.shape({Shape{3, 2}, Shape{2, 3}}),
                "[loss] has outputs [3, 2] but targets [2, 3]: the shapes must match");
}

TEST_CASE("BinaryCrossEntropy: each output by itself, also where exp alone would overflow; gradients") {
    BinaryCrossEntropy layer;
    const std::vector<double> x = {0.5, -2, 3, 1, 0, -1}, t = {1, 0, 0.25, 0, 1, 0.5};
    double expected = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double p = 1 / (1 + std::exp(-x[i]));
        expected -= (t[i] * std::log(p) + (1 - t[i]) * std::log(1 - p)) / 6;
    }
    CHECK(output_of(LayerTester(layer).input({2, 3}, x).input({2, 3}, t))[0] ==
          doctest::Approx(expected).epsilon(1e-12));
    CHECK(output_of(LayerTester(layer).input({2, 1}, {1e4, -1e4}).ids({2, 1}, 2, {0, 1}))[0] == doctest::Approx(1e4));
    check_gradients(LayerTester(layer).input({5, 7}).input({5, 7}));
    check_gradients(LayerTester(layer).input({3, 2, 5}).ids({3, 2, 5}, 2));
    CHECK_ERROR(layer.shape({Shape{3, 2}, Shape{2}}),
                "[loss] has outputs [3, 2] but targets [2]: the shapes must match");
}

TEST_CASE("Distillation: KL divergence to a teacher at a temperature; the student's gradient") {
    constexpr double T = 2.5;
    Distillation layer("loss", T);
    const std::vector<double> x = {1, -2, 0.5, 3, 3, 3}, teacher = {0, 1, 2, -1, 4, 0.25};
    double expected = 0;
    for (size_t r = 0; r < 2; r++) {
        double of_x = 0, of_teacher = 0;
        for (size_t v = 3 * r; v < 3 * r + 3; v++) of_x += std::exp(x[v] / T), of_teacher += std::exp(teacher[v] / T);
        for (size_t v = 3 * r; v < 3 * r + 3; v++) {
            const double p = std::exp(teacher[v] / T) / of_teacher, q = std::exp(x[v] / T) / of_x;
            expected += T * T * p * std::log(p / q) / 2;
        }
    }
    CHECK(output_of(LayerTester(layer).input({3, 2}, x).input({3, 2}, teacher))[0] ==
          doctest::Approx(expected).epsilon(1e-12));
    CHECK(output_of(LayerTester(layer).input({3, 2}, x).input({3, 2}, x))[0] == doctest::Approx(0).epsilon(1e-12));
    check_gradients(LayerTester(layer).input({11, 7}).input({11, 7}));
    check_gradients(LayerTester(layer).input({5, 2, 3}).input({5, 2, 3}));
    CHECK_ERROR(Distillation("loss", -1), "[loss] has a temperature of -1, expected a positive number");
    CHECK_ERROR(layer.shape({Shape{3, 2}, Shape{4, 2}}),
                "[loss] has outputs [3, 2] but a teacher's [4, 2]: the shapes must match");
}

TEST_CASE("Ignored targets: the mean is of what counts, and the rest has no gradient") {
    // The last input: what a target of the batch counts on average.
    const std::vector<double> x = {1, 2, -3, 0.5, 0, 7}, t = {1.5, -9, -1, -9, -0.75, 7.25};
    MeanSquaredError squared("loss", {.ignored = -9});
    CHECK(output_of(LayerTester(squared).input({3, 2}, x).input({3, 2}, t).input({1}, {4.0 / 6}))[0] ==
          doctest::Approx((0.25 + 4 + 0.5625 + 0.0625) / 4).epsilon(1e-12));
    const std::vector<double> given = {0, 1, 1, -9, 0, 1, 1, 0, -9, 1};
    Huber huber("loss", 0.75, {.ignored = -9});
    BinaryCrossEntropy yes_or_no("loss", {.ignored = -9});
    for (Layer *layer : std::initializer_list<Layer *>{&squared, &huber, &yes_or_no}) {
        CAPTURE(layer->kind());
        check_gradients(LayerTester(*layer).input({5, 2}).ids({5, 2}, 2, given).input({1}, {0.8}));
    }
    Distillation taught("loss", 2.5, {.ignored = 3});
    check_gradients(LayerTester(taught).input({7, 3}).input({7, 3}).ids({3}, 4, {1, 3, 0}).input({1}, {2.0 / 3}));
    const std::vector<double> student = {1, -2, 0.5, 3, 3, 3}, teacher = {0, 1, 2, -1, 4, 0.25};
    Distillation all("loss", 2.5);
    const std::vector<double> mine(student.begin(), student.begin() + 3), its(teacher.begin(), teacher.begin() + 3);
    const LayerTester both =
        LayerTester(taught).input({3, 2}, student).input({3, 2}, teacher).ids({2}, 4, {0, 3}).input({1}, {0.5});
    CHECK(output_of(both)[0] ==
          doctest::Approx(output_of(LayerTester(all).input({3, 1}, mine).input({3, 1}, its))[0]).epsilon(1e-12));
    Graph g;
    const Tensor y = g.input("features", {3, 4}, Halide::Float(32)), ids = g.input("targets", {4}, Halide::Int(32));
    CHECK_ERROR(taught(y, y),
                "[loss] has the option `ignored`, so call it with the targets too: (outputs, teacher, targets)");
    CHECK_ERROR(all(y, y, ids), "[loss] is called with targets, which it needs only with the option `ignored`: set it, "
                                "or leave the targets out");
    CHECK_ERROR(squared(y, y),
                "[loss] weighs rows by 'features', but only the rows of the model's own targets are counted");
}

TEST_CASE("Accuracy: the share of rows whose target has the largest output") {
    Accuracy layer, some("accuracy", {.ignored = 7});
    const std::vector<double> x = {1, 2, 3, 3, 1, 1, 0, 5, 0, 1, 1, 0};
    CHECK(output_of(LayerTester(layer).input({3, 4}, x).ids({4}, 3, {2, 1, 1, 1}))[0] == doctest::Approx(0.75));
    CHECK(output_of(LayerTester(some).input({3, 4}, x).ids({4}, 8, {2, 7, 0, 1}).input({1}, {0.75}))[0] ==
          doctest::Approx(2.0 / 3));
    CHECK(LayerTester(layer).input({3, 4}).ids({4}, 3).check().empty());
}

TEST_CASE("metrics: one number each, of a name of its own") {
    Graph g;
    const Tensor x = g.input("features", {3, 4}, Halide::Float(32));
    CHECK_ERROR(metric("size", x), "the metric 'size' has shape [3, 4], expected one number");
    Accuracy accuracy;
    const Tensor one = accuracy(x, g.input("targets", {4}, Halide::Int(32)));
    metric("accuracy", one);
    CHECK_ERROR(metric("accuracy", one), "two metrics are named 'accuracy'");
}

}  // namespace cryolite::test
