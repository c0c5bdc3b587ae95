#include "runtime/train/rate.h"

#include <doctest/doctest.h>

namespace cryolite {

TEST_CASE("the rate rises as (i + 1) / (warmup + 1)") {
    const LearningRate r{1e-3, 1e-4, 100, 2000};
    CHECK(r.at(0) == doctest::Approx(1e-3 / 101));
    CHECK(r.at(99) == doctest::Approx(1e-3 * 100 / 101));
    CHECK(r.at(100) == doctest::Approx(1e-3));
}

TEST_CASE("the rate falls on a cosine to its least at the last step") {
    const LearningRate r{1e-3, 1e-4, 100, 2000};
    CHECK(r.at(1999) == doctest::Approx(1e-4));
    CHECK(r.at(100 + 1899 / 3) == doctest::Approx(1e-4 + 0.75 * 9e-4).epsilon(1e-3));
    for (uint64_t i = 101; i < 2000; i++) CHECK(r.at(i) < r.at(i - 1));
}

TEST_CASE("runs of one step, and runs that end before the warm-up does") {
    CHECK(LearningRate{1e-3, 1e-4, 0, 1}.at(0) == doctest::Approx(1e-3));
    CHECK(LearningRate{1e-3, 1e-4, 0, 2}.at(1) == doctest::Approx(1e-4));
    CHECK(LearningRate{1e-3, 1e-4, 100, 10}.at(9) == doctest::Approx(1e-3 * 10 / 101));
    CHECK(LearningRate{2e-3, 2e-3, 0, 10}.at(7) == 2e-3);
}

}  // namespace cryolite
