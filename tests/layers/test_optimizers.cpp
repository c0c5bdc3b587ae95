// Optimizer rules against their formulas, on single elements, in the order of torch.optim.

#include <cmath>

#include "dsl/optimizers/adamw.h"
#include "dsl/optimizers/lars.h"
#include "dsl/optimizers/lion.h"
#include "dsl/optimizers/sgd.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

/// The new weight and states after each of `steps` updates with gradient g(t) = cos(t), as text.
std::vector<std::vector<double>> run(Optimizer &o, bool decays, int steps, std::vector<double> scalars) {
    std::vector<std::vector<double>> history;
    std::vector<float> now(1 + o.states().size(), 0.0f);
    now[0] = 0.5f;
    for (int t = 1; t <= steps; t++) {
        o.decays = decays;
        o.step = Halide::cast<double>(t);
        for (size_t k = 0; k < scalars.size(); k++) o.scalars()[k]->exact = Expr(scalars[k]);
        for (size_t k = 0; k < o.states().size(); k++) o.states()[k]->now = Expr(now[k + 1]);
        std::vector<Expr> values = {o(Expr(now[0]), Expr(float(std::cos(t))))};
        for (const State *s : o.states()) values.push_back(s->now);
        for (size_t k = 0; k < values.size(); k++) {
            Func f("f");
            f() = values[k];
            Halide::Buffer<float> b = f.realize();
            now[k] = b();
        }
        history.emplace_back(now.begin(), now.end());
    }
    return history;
}

std::vector<std::vector<double>> run_in_child(Optimizer &o, bool decays, int steps, std::vector<double> scalars) {
    std::string text = in_child([&] {
        std::string s;
        for (auto &row : run(o, decays, steps, scalars)) {
            for (double v : row) s += fmt::format("{} ", v);
            s += "\n";
        }
        return s;
    });
    std::vector<std::vector<double>> rows;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        rows.emplace_back(std::istream_iterator<double>(words), std::istream_iterator<double>());
    }
    return rows;
}

}  // namespace

TEST_CASE("AdamW: decoupled decay, bias correction") {
    const double lr = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.2;
    for (bool decays : {true, false}) {
        AdamW rule;
        auto rows = run_in_child(rule, decays, 3, {lr, beta1, beta2, eps, decay});
        double w = 0.5, m = 0, v = 0;
        REQUIRE(rows.size() == 3);
        for (int t = 1; t <= 3; t++) {
            double g = std::cos(t);
            m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g;
            if (decays) w -= lr * decay * w;
            w -= lr * m / (1 - std::pow(beta1, t)) / (std::sqrt(v / (1 - std::pow(beta2, t))) + eps);
            CHECK(rows[size_t(t - 1)][0] == doctest::Approx(w).epsilon(1e-5));
            CHECK(rows[size_t(t - 1)][1] == doctest::Approx(m).epsilon(1e-5));
            CHECK(rows[size_t(t - 1)][2] == doctest::Approx(v).epsilon(1e-5));
        }
    }
}

TEST_CASE("Sgd: momentum and decay as torch.optim.SGD") {
    const double lr = 0.1, momentum = 0.9, decay = 0.2;
    for (bool decays : {true, false}) {
        Sgd rule;
        auto rows = run_in_child(rule, decays, 3, {lr, momentum, decay});
        double w = 0.5, v = 0;
        REQUIRE(rows.size() == 3);
        for (int t = 1; t <= 3; t++) {
            double g = std::cos(t) + (decays ? decay * w : 0);
            v = momentum * v + g;
            w -= lr * v;
            CHECK(rows[size_t(t - 1)][0] == doctest::Approx(w).epsilon(1e-5));
            CHECK(rows[size_t(t - 1)][1] == doctest::Approx(v).epsilon(1e-5));
        }
    }
}

TEST_CASE("Lion: the sign of a mean, decoupled decay") {
    const double lr = 0.1, beta1 = 0.9, beta2 = 0.95, decay = 0.2;
    for (bool decays : {true, false}) {
        Lion rule;
        auto rows = run_in_child(rule, decays, 4, {lr, beta1, beta2, decay});
        double w = 0.5, m = 0;
        REQUIRE(rows.size() == 4);
        for (int t = 1; t <= 4; t++) {
            double g = std::cos(t), c = beta1 * m + (1 - beta1) * g;
            if (decays) w -= lr * decay * w;
            w -= lr * (c > 0 ? 1 : -1), m = beta2 * m + (1 - beta2) * g;
            CHECK(rows[size_t(t - 1)][0] == doctest::Approx(w).epsilon(1e-5));
            CHECK(rows[size_t(t - 1)][1] == doctest::Approx(m).epsilon(1e-5));
        }
    }
}

TEST_CASE("Lars: a step as long as the parameter's norm says") {
    const double lr = 0.1, momentum = 0.9, decay = 0.2, trust = 0.05;
    for (bool decays : {true, false})
        for (double norm_w : {0.5, 0.0}) {
            Lars rule;
            rule.of_w.now = Expr(float(norm_w)), rule.of_g.now = Expr(2.0f);
            auto rows = run_in_child(rule, decays, 3, {lr, momentum, decay, trust});
            double w = 0.5, v = 0;
            REQUIRE(rows.size() == 3);
            for (int t = 1; t <= 3; t++) {
                double ratio = decays && norm_w > 0 ? trust * norm_w / (2 + decay * norm_w) : 1;
                v = momentum * v + lr * ratio * (std::cos(t) + (decays ? decay * w : 0)), w -= v;
                CHECK(rows[size_t(t - 1)][0] == doctest::Approx(w).epsilon(1e-5));
                CHECK(rows[size_t(t - 1)][1] == doctest::Approx(v).epsilon(1e-5));
            }
        }
}

TEST_CASE("optimizers: their flags, in the order of the formula above") {
    AdamW adamw;
    Sgd sgd;
    auto names = [](const Optimizer &o) {
        std::string s;
        for (const Scalar *x : o.scalars()) s += x->name + " ";
        return s;
    };
    CHECK(names(adamw) == "lr beta1 beta2 eps weight-decay ");
    CHECK(names(sgd) == "lr beta1 weight-decay ");
}

}  // namespace cryolite::test
