#include "dsl/layers/documents.h"

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("Documents: counts the end-of-text tokens up to each position, in each sequence by itself") {
    Documents layer("documents", 0);
    const std::vector<double> tokens = {3, 0, 5, 5, 0, 0, 2, /**/ 0, 1, 1, 1, 1, 1, 0};
    CHECK(output_of(LayerTester(layer).ids({7, 2}, 6, tokens)) ==
          std::vector<double>{0, 1, 1, 1, 2, 3, 3, /**/ 1, 1, 1, 1, 1, 1, 2});
    CHECK(output_of(LayerTester(layer).ids({1, 2}, 6, {0, 4})) == std::vector<double>{1, 0});
    CHECK(LayerTester(layer).ids({7, 2}, 6).check().empty());  // there is no gradient
    CHECK_ERROR(Documents("documents", -1), "[documents] has the end-of-text token -1, expected 0 or more");
}

TEST_CASE("PaddingMask: 0 where a token is padding") {
    PaddingMask layer("mask", 4);
    CHECK(output_of(LayerTester(layer).ids({3, 2}, 6, {4, 0, 4, 1, 5, 4})) == std::vector<double>{0, 1, 0, 1, 1, 0});
    CHECK(LayerTester(layer).ids({3, 2}, 6).check().empty());
    CHECK_ERROR(PaddingMask("mask", -4), "[mask] has the padding token -4, expected 0 or more");
}

}  // namespace cryolite::test
