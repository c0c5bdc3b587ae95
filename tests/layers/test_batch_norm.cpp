#include "dsl/layers/batch_norm.h"

#include <cmath>

#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

LayerTester tester(BatchNorm &layer, const Shape &s, bool training, std::vector<double> x = {}) {
    LayerTester t(layer);
    t.input(s, std::move(x)).ids({Graph::mode_words}, 2, {double(training), 0, 0, 0, 0});
    return t;
}

}  // namespace

TEST_CASE("BatchNorm: gradients in training and in evaluation, of vectors and of images") {
    BatchNorm layer("norm", 5), wide("norm", 17);
    for (bool training : {true, false}) {
        check_gradients(tester(layer, {5, 7}, training));
        check_gradients(tester(layer, {5, 3, 2, 3}, training));
        check_gradients(tester(wide, {17, 13}, training));
    }
    check_gradients(tester(layer, {5, 7}, true).derived());
}

TEST_CASE("RescaledChannels: gradients of the rows and of the numbers of channels") {
    RescaledChannels layer("norm.rescaled");
    check_gradients(LayerTester(layer).input({5, 7}).input({5, 4}));
    check_gradients(LayerTester(layer).input({5, 3, 2, 3}).input({5, 3}));
    check_gradients(LayerTester(layer).input({5, 7}).input({5, 4}).derived());
    CHECK_ERROR(layer.shape({{5, 7}, {4, 3}}), "[norm.rescaled] has [4, 3] for the channels of [5, 7], expected three");
    CHECK_ERROR(layer.shape({{5, 7}, {5, 2}}), "[norm.rescaled] has [5, 2] for the channels of [5, 7], expected three");
}

TEST_CASE("BatchNorm: what it may not be is refused by name") {
    BatchNorm layer("norm", 5);
    CHECK_ERROR(static_cast<Layer &>(layer).shape(Shape{4, 7}), "[norm] input has 4 channels, expected 5");
    CHECK_ERROR(static_cast<Layer &>(layer).shape(Shape{5, 1}),
                "[norm] input [5, 1] has one row, but the statistics of a batch need several: use a larger batch");
    CHECK_ERROR(BatchNorm("norm", 5, {.eps = 0}), "[norm] has an eps of 0, expected above 0");
    CHECK_ERROR(BatchNorm("norm", 5, {.momentum = 1.5}), "[norm] has a momentum of 1.5, expected 0 to 1");
    CHECK(layer.mean.is_state());
    CHECK(layer.mean.path() == "norm.running_mean");
    CHECK(!layer.g.is_state());
}

}  // namespace cryolite::test
