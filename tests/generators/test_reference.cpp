// Steps in float64: against numbers worked out by hand, and their gradients against differences of their own losses.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "dsl/layers/linear.h"
#include "dsl/optimizers/sgd.h"
#include "dsl/tensor.h"
#include "generators/codegen/child.h"
#include "generators/checks/reference.h"

namespace cryolite::test {

namespace {

using compiler::StepOptions;
using nlohmann::json;

/// Two products, the first of them twice, one value read three times.
struct Twice : Model {
    Linear a{"a", 3, 3}, b{"b", 3, 2};
    MeanSquaredError criterion{"loss"};
    std::string task() const override { return "features"; }
    Tensor input(Graph &g) override { return g.input("features", {3, 2}, Halide::Float(32)); }
    Tensor targets(Graph &g) override { return g.input("targets", {2, 2}, Halide::Float(32)); }
    Tensor forward(Tensor x) override {
        const Tensor y = a(x), z = a(y * y) + y;
        return b(z);
    }
    Tensor loss(Tensor y, Tensor targets) override { return criterion(y, targets); }
};

json job(double lr) {
    json parameters = {{"a.weight", json::array()},
                       {"a.bias", {0.1, -0.2, 0.3}},
                       {"b.weight", json::array()},
                       {"b.bias", {0.5, 0.25}}};
    for (int i = 0; i < 9; i++) parameters["a.weight"].push_back(0.3 * std::sin(i + 1.0));
    for (int i = 0; i < 6; i++) parameters["b.weight"].push_back(0.4 * std::cos(i + 1.0));
    return {{"scalars", {{"lr", lr}, {"beta1", 0.0}, {"clip", 0.05}, {"weight-decay", 0.0}}},
            {"parameters", parameters},
            {"batches", {{{"input", {0.5, -1.0, 0.25, 1.0, 0.75, -0.5}}, {"targets", {1.0, 0.0, -1.0, 0.5}}}}}};
}

/// In a child: Funcs that are built here would change what kernels of later tests are called.
json run(const json &given, const StepOptions &options = {}) {
    json answer;
    compiler::share_jit_runtime();
    compiler::run_children(
        1, 1, 60,
        [&](int) {
            Twice model;
            Sgd optimizer;
            return compiler::reference_steps(model, optimizer, options, given.dump());
        },
        [&](int, const compiler::ChildResult &r) {
            REQUIRE(r.error == "");
            answer = json::parse(r.output);
        });
    return answer;
}

double norm(const json &before, const json &after) {
    double square = 0;
    for (auto &[name, values] : before.items())
        for (size_t i = 0; i < values.size(); i++) square += std::pow(double(values[i]) - double(after.at(name)[i]), 2);
    return std::sqrt(square);
}

}  // namespace

TEST_CASE("reference: gradients are the slopes of its losses") {
    const json given = job(1), before = given["parameters"], after = run(given)["parameters"];
    constexpr double h = 1e-5;
    json up = given, down = given;
    double along = 0;  // of a direction through all parameters
    for (auto &[name, values] : before.items())
        for (size_t i = 0; i < values.size(); i++) {
            const double v = std::sin(double(i) + double(name.size()));
            along += v * (double(values[i]) - double(after[name][i]));
            up["parameters"][name][i] = double(values[i]) + h * v;
            down["parameters"][name][i] = double(values[i]) - h * v;
        }
    const double slope = (double(run(up)["losses"][0]) - double(run(down)["losses"][0])) / (2 * h);
    REQUIRE(std::abs(slope) > 1e-3);
    CHECK(along == doctest::Approx(slope).epsilon(1e-7));
}

TEST_CASE("reference: clipping, frozen parameters, groups") {
    const json given = job(1), before = given["parameters"], plain = run(given);
    const double whole = norm(before, plain["parameters"]);
    REQUIRE(whole > 0.05);
    CHECK(norm(before, run(given, {.clip = true})["parameters"]) == doctest::Approx(0.05).epsilon(1e-4));

    const json frozen = run(given, {.freeze = {"a.*"}});
    CHECK(frozen["parameters"]["a.weight"] == before["a.weight"]);
    CHECK(frozen["parameters"]["b.weight"] == plain["parameters"]["b.weight"]);
    CHECK_FALSE(frozen["gradients"].contains("a.weight"));

    StepOptions groups;
    groups.param_groups.push_back(ParamGroup::parse("a=lr:0.5x").value());
    const json grouped = run(given, groups);
    CHECK(norm({{"a.bias", before["a.bias"]}}, grouped["parameters"]) ==
          doctest::Approx(norm({{"a.bias", before["a.bias"]}}, plain["parameters"]) / 2));
}

TEST_CASE("reference: what is missing is said") {
    json given = job(1);
    given["parameters"]["a.bias"] = {1.0};
    compiler::run_children(
        1, 1, 60,
        [&](int) {
            Twice model;
            Sgd optimizer;
            return compiler::reference_steps(model, optimizer, {}, given.dump());
        },
        [&](int, const compiler::ChildResult &r) {
            CHECK(r.error.find("1 numbers of 'a.bias', expected 3") != std::string::npos);
        });
}

}  // namespace cryolite::test
