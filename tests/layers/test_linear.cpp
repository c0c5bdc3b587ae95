#include "dsl/layers/linear.h"

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("Linear: the gradient on ragged shapes is the derived one") {
    Linear layer("up", 13, 7);
    check_gradients(LayerTester(layer).input({13, 11}).derived());
}

TEST_CASE("Linear: rows in several dimensions, single channels, single rows") {
    Linear wide("wide", 5, 3), one_in("one_in", 1, 5), one_out("one_out", 5, 1);
    check_gradients(LayerTester(wide).input({5, 3, 2, 2}));
    check_gradients(LayerTester(one_in).input({1, 7}));
    check_gradients(LayerTester(one_out).input({5, 1}));
}

TEST_CASE("Linear: without a bias, and with the input innermost, as PyTorch stores it") {
    Linear plain("plain", 13, 7, {.bias = false}), both("both", 13, 7, {.in_innermost = true}),
        bare("bare", 5, 3, {.bias = false, .in_innermost = true});
    CHECK(plain.W.shape() == Shape{7, 13});
    CHECK(both.W.shape() == Shape{13, 7});
    CHECK(plain.parameters().size() == 1);
    check_gradients(LayerTester(plain).input({13, 11}).derived());
    check_gradients(LayerTester(both).input({13, 11}).derived());
    check_gradients(LayerTester(bare).input({5, 2, 3}).derived());
}

TEST_CASE("Linear: shapes") {
    Linear layer("h.0.up", 13, 7);
    CHECK(layer.shape(Shape{13, 4, 2}) == Shape{7, 4, 2});
    CHECK_ERROR(layer.shape(Shape{12, 4}), "[h.0.up] input has 12 channels, expected 13");
    CHECK_ERROR(Linear("h.0.up", 13, 0), "[h.0.up.weight] has shape [0, 13]: every extent must be positive");
    CHECK(layer.flops(Shape{13, 4}) == 2.0 * 13 * 7 * 4);
}

}  // namespace cryolite::test
