// The gated linear recurrence against a loop in float64.

#include "dsl/layers/recurrence.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

std::vector<double> numbers(int64_t count, double from, double by) {
    std::vector<double> v;
    for (int64_t k = 0; k < count; k++) v.push_back(from + by * double(k * 7 % 11));
    return v;
}

}  // namespace

TEST_CASE("LinearRecurrence: each place from the one before, sequences apart") {
    LinearRecurrence layer("scan");
    const Shape s{3, 5, 2};
    const std::vector<double> a = numbers(s.size(), -0.3, 0.13), b = numbers(s.size(), 1, -0.21);
    std::vector<double> h = b;
    for (size_t n = 0; n < 2; n++)
        for (size_t t = 1; t < 5; t++)
            for (size_t i = 0; i < 3; i++)
                h[i + 3 * (t + 5 * n)] += a[i + 3 * (t + 5 * n)] * h[i + 3 * (t - 1 + 5 * n)];
    const std::vector<double> found = output_of(LayerTester(layer).input(s, a).input(s, b));
    REQUIRE(found.size() == h.size());
    for (size_t k = 0; k < h.size(); k++) CHECK(found[k] == doctest::Approx(h[k]).epsilon(1e-13));
}

TEST_CASE("LinearRecurrence: gradients of gates and of inputs; what does not fit is refused") {
    LinearRecurrence layer("scan");
    for (const Shape &s : {Shape{3, 5, 2}, Shape{17, 2, 1}, Shape{4, 1, 3}, Shape{1, 11, 1}}) {
        CAPTURE(s.str());
        check_gradients(LayerTester(layer).input(s).input(s));
    }
    CHECK_ERROR(layer.shape({Shape{3, 5}, Shape{3, 5}}), "[scan] input [3, 5] is not [width, context, batch]");
    CHECK_ERROR(layer.shape({Shape{3, 5, 2}, Shape{3, 4, 2}}),
                "[scan] has gates [3, 5, 2] for inputs [3, 4, 2]: the shapes must match");
}

}  // namespace cryolite::test
