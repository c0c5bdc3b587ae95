#include "dsl/layers/attention.h"

#include <cmath>

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("CausalAttention: gradients on ragged contexts and head sizes") {
    CausalAttention five("five", 5), one("one", 1);
    for (int context : {1, 7, 16, 17, 37}) {
        CAPTURE(context);
        check_gradients(LayerTester(five).input({3 * 15, context, 2}));
    }
    check_gradients(LayerTester(one).input({3 * 17, 19, 1}));
}

TEST_CASE("CausalAttention: a position sees itself and those before it") {
    CausalAttention layer("attn", 2);
    constexpr int width = 4, context = 19, batch = 2;
    std::vector<double> qkv(3 * width * context * batch);
    for (size_t i = 0; i < qkv.size(); i++) qkv[i] = std::sin(double(i * i % 97));
    auto at = [&](int part, int c, int t, int s) {
        return qkv[size_t(((s * context) + t) * 3 * width + part * width + c)];
    };
    std::vector<double> y = output_of(LayerTester(layer).input({3 * width, context, batch}, qkv));
    for (int s = 0; s < batch; s++)
        for (int t = 0; t < context; t++)
            for (int c = 0; c < width; c++) {
                double total = 0, sum = 0;
                for (int j = 0; j <= t; j++) {
                    double dot = 0;
                    for (int e = 0; e < 2; e++)
                        dot += at(0, c / 2 * 2 + e, t, s) * at(1, c / 2 * 2 + e, j, s);
                    double p = std::exp(dot / std::sqrt(2.0));
                    total += p, sum += p * at(2, c, j, s);
                }
                CHECK(y[size_t((s * context + t) * width + c)] ==
                      doctest::Approx(sum / total).epsilon(1e-9));
            }
}

TEST_CASE("CausalAttention: shapes") {
    CausalAttention layer("h.0.attn", 5);
    CHECK(layer.shape(Shape{255, 37, 2}) == Shape{85, 37, 2});
    CHECK_ERROR(layer.shape(Shape{3 * 64, 32, 2}),
                "[h.0.attn] width 64 is not divisible by 5 heads");
    CHECK_ERROR(CausalAttention("h.0.attn", 0), "[h.0.attn] has 0 heads, expected at least 1");
    CHECK_ERROR(layer.shape(Shape{255}), "[h.0.attn]");
}

}  // namespace cryolite::test
