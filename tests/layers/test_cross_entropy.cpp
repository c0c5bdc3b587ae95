#include "dsl/losses/cross_entropy.h"

#include <cmath>
#include <numeric>

#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

/// A loss by rows, and all that it reads.
struct Rows {
    int classes;
    std::vector<double> x, targets;
    CrossEntropyOptions options;

    double weight(double target) const {
        return options.ignored && target == *options.ignored ? 0 : of_class(int(target));
    }
    double of_class(int v) const { return options.class_weights.empty() ? 1 : options.class_weights[size_t(v)]; }
    double total_weight() const {
        return std::accumulate(targets.begin(), targets.end(), 0.0,
                               [&](double sum, double t) { return sum + weight(t); });
    }
    /// As the formula says it, term by term.
    double loss() const {
        const double smoothing = options.smoothing;
        double total = 0;
        for (size_t r = 0; r < targets.size(); r++) {
            if (options.ignored && targets[r] == *options.ignored) continue;
            const double *row = &x[r * size_t(classes)];
            double sum = 0;
            for (int v = 0; v < classes; v++) sum += std::exp(row[v]);
            for (int v = 0; v < classes; v++) {
                const double share = (v == targets[r] ? 1 - smoothing : 0) + smoothing / classes;
                total += share * of_class(v) * (std::log(sum) - row[v]);
            }
        }
        return total_weight() > 0 ? total / total_weight() : 0;
    }
    /// As the runtime says it: 1 where no row counts.
    double mean_weight() const { return total_weight() > 0 ? total_weight() / double(targets.size()) : 1; }

    LayerTester tester(Layer &layer, const Shape &rows) const {
        std::vector<int> all = rows.extents();
        all.insert(all.begin(), classes);
        LayerTester t(layer);
        t.input(Shape(all), x).ids(rows, classes, targets);
        if (!options.class_weights.empty())
            t.input({classes}, std::vector<double>(options.class_weights.begin(), options.class_weights.end()));
        if (!options.class_weights.empty() || options.ignored) t.input({1}, {mean_weight()});
        return t;
    }
};

Rows some_rows(int classes, int rows, const CrossEntropyOptions &options) {
    Rows r{classes, {}, {}, options};
    for (int i = 0; i < classes * rows; i++) r.x.push_back(3 * std::sin(1.7 * i + 0.3));
    for (int i = 0; i < rows; i++)
        r.targets.push_back(i % 3 == 1 && options.ignored ? *options.ignored : i * 5 % classes);
    return r;
}

const std::vector<float> seven_weights = {0.5f, 2, 0, 1, 3.25f, 0.125f, 1.5f};

}  // namespace

TEST_CASE("CrossEntropy: gradients") {
    CrossEntropy layer;
    check_gradients(LayerTester(layer).input({11, 7}).ids({7}, 11));
    check_gradients(LayerTester(layer).input({11, 7, 3}).ids({7, 3}, 11));
    check_gradients(LayerTester(layer).input({1, 3}).ids({3}, 1));
}

TEST_CASE("CrossEntropy: values, also where exp alone would overflow") {
    CrossEntropy layer;
    std::vector<double> y = output_of(LayerTester(layer).input({3, 2}, {1, 2, 3, -1, 0, 1}).ids({2}, 3, {2, 0}));
    double e = std::exp(1.0), z = std::log(1 + 1 / e + 1 / e / e);
    CHECK(y[0] == doctest::Approx((z + (z + 2)) / 2).epsilon(1e-12));
    y = output_of(LayerTester(layer).input({2, 1}, {1e4, -1e4}).ids({1}, 2, {1}));
    CHECK(y[0] == doctest::Approx(2e4).epsilon(1e-12));
}

TEST_CASE("CrossEntropy: ignored targets, smoothing and class weights, each and together: values and gradients") {
    const CrossEntropyOptions cases[] = {
        {.ignored = -100},
        {.ignored = 3},
        {.smoothing = 0.1},
        {.smoothing = 1},
        {.class_weights = seven_weights},
        {.smoothing = 0.25, .class_weights = seven_weights},
        {.ignored = 0, .smoothing = 0.3, .class_weights = seven_weights},
    };
    for (const CrossEntropyOptions &options : cases) {
        CAPTURE(options.ignored.value_or(-1));
        CAPTURE(options.smoothing);
        CAPTURE(options.class_weights.size());
        CrossEntropy layer("loss", options);
        const Rows rows = some_rows(7, 10, options);
        CHECK(output_of(rows.tester(layer, {5, 2}))[0] == doctest::Approx(rows.loss()).epsilon(1e-12));
        check_gradients(rows.tester(layer, {10}));
    }
}

TEST_CASE("CrossEntropy: where all rows are ignored the loss is 0, whatever they hold") {
    CrossEntropy layer("loss", {.ignored = -100, .smoothing = 0.1});
    const Rows rows{3, {1, 2, 3, INFINITY, 0, NAN}, {-100, -100}, layer.options};
    CHECK(output_of(rows.tester(layer, {2}))[0] == 0);
    const Rows finite{3, {1, 2, 3, 4, 0, 5}, {-100, -100}, layer.options};
    check_gradients(finite.tester(layer, {2}));
}

TEST_CASE("CrossEntropy: shapes") {
    CrossEntropy layer;
    CHECK(layer.shape({Shape{11, 7, 3}, Shape{7, 3}}) == Shape{1});
    CHECK_ERROR(layer.shape({Shape{11, 7, 3}, Shape{7}}),
                "[loss] has outputs [11, 7, 3] but targets [7]: one target for each row is expected");
}

TEST_CASE("CrossEntropy: what it is given has to make sense") {
    CHECK_ERROR(CrossEntropy("loss", {.smoothing = 1.5}), "[loss] has a label smoothing of 1.5, expected 0 to 1");
    CHECK_ERROR(CrossEntropy("loss", {.class_weights = {1, -2}}),
                "[loss] has a class weight of -2, expected a finite number from 0 on");
    CHECK_ERROR(CrossEntropy("loss", {.class_weights = {0, 0}}),
                "[loss] has class weights that are all 0, and learns from no row");
    CrossEntropy weighted("loss", {.class_weights = {1, 2}});
    CHECK_ERROR(weighted.shape({Shape{3, 4}, Shape{4}}),
                "[loss] has 2 class weights, but outputs [3, 4]: one for each of 3 classes is expected");
    Graph g;
    CrossEntropy masked("loss", {.ignored = -100});
    const Tensor x = g.input("features", {3, 4}, Halide::Float(32)), others = g.input("tokens", {4}, Halide::Int(32));
    CHECK_ERROR(masked(x, others), "[loss] weighs rows by 'tokens', but only the rows of the model's own targets are "
                                   "counted before a step: pass the targets that loss() is given");
    CrossEntropy plain;
    CHECK(plain(x, others).shape() == Shape{1});
}

}  // namespace cryolite::test
