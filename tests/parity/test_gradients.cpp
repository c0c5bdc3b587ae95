// The gradient of a whole step against finite differences of its loss, in float32, along the
// gradient itself: the direction in which the loss changes most.

#include "tests/parity/case.h"

namespace cryolite::test {

TEST_CASE("whole step: the gradient of every parameter, on ragged shapes") {
    json args = {{"layers", 1}, {"heads", 5},  {"width", 85}, {"context", 7},
                 {"batch", 2},  {"vocab", 31}, {"lr", 0.0},   {"decay", 0.0}};
    TrainingCase c(args, "--update separate");
    c.step();
    std::map<std::string, std::vector<float>> gradients;  // before another forward pass takes their place
    for (const std::string &name : c.parameters()) gradients[name] = c.values(Role::gradient, name);
    for (const auto &[name, g] : gradients) {
        const std::vector<float> w = c.values(Role::parameter, name);
        double norm = 0;
        for (float x : g) norm += double(x) * x;
        norm = std::sqrt(norm);
        CAPTURE(name);
        REQUIRE(norm > 1e-4);
        // The loss changes by about 0.02, and is known to about 1e-6.
        double h = 0.01 / norm;
        auto loss_at = [&](double by) {
            std::vector<float> moved = w;
            for (size_t i = 0; i < w.size(); i++) moved[i] = float(w[i] + by * g[i] / norm);
            c.set_values(name, moved);
            return c.trainer.evaluate(c.batch(0), 2);
        };
        double measured = (loss_at(h) - loss_at(-h)) / (2 * h);
        c.set_values(name, w);
        CHECK(measured == doctest::Approx(norm).epsilon(5e-3));
    }
}

TEST_CASE("whole step: the same numbers twice, bit for bit") {
    json args = {{"layers", 1}, {"heads", 5}, {"width", 85}, {"context", 7}, {"batch", 2}, {"vocab", 31}};
    TrainingCase a(args, "--update auto"), b(args, "--update auto");
    for (int s = 0; s < 3; s++) CHECK(a.step() == b.step());
    for (const std::string &name : a.parameters()) {
        CAPTURE(name);
        CHECK(a.values(Role::parameter, name) == b.values(Role::parameter, name));
    }
}

}  // namespace cryolite::test
