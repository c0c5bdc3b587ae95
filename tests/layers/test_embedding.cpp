#include "dsl/layers/embedding.h"

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("Embedding: the gradient adds rows that are selected more than once") {
    Embedding layer("wte", 11, 5);
    check_gradients(LayerTester(layer).ids({7}, 11).derived());
    check_gradients(LayerTester(layer).ids({7, 3}, 11));
    check_gradients(LayerTester(layer).ids({4}, 11, {3, 3, 3, 10}));
}

TEST_CASE("Positions: positions past the context have no gradient") {
    Positions layer("wpe", 9, 5), exact("wpe", 7, 5);
    check_gradients(LayerTester(layer).input({5, 7, 3}));
    check_gradients(LayerTester(exact).input({5, 7, 3}).derived());
}

TEST_CASE("TiedHead: gradients of the input and of the shared table") {
    Embedding token("wte", 11, 5);
    TiedHead head(token);
    CHECK(head.parameters().size() == 1);
    check_gradients(LayerTester(head).input({5, 7}).derived());
}

TEST_CASE("embeddings: shapes") {
    Embedding token("wte", 11, 5);
    Positions position("wpe", 7, 5);
    TiedHead head(token);
    CHECK(token.shape(Shape{7, 3}) == Shape{5, 7, 3});
    CHECK(head.shape(Shape{5, 7, 3}) == Shape{11, 7, 3});
    CHECK_ERROR(head.shape(Shape{4, 7}), "[wte.transposed] input has 4 channels, expected 5");
    CHECK_ERROR(position.shape(Shape{4, 7, 3}), "[wpe] input has 4 channels, expected 5");
    CHECK_ERROR(position.shape(Shape{5, 8, 3}), "[wpe] context 8 is longer than the 7 positions");
}

}  // namespace cryolite::test
