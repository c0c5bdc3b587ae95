// Attention that normalises the heads of its queries and keys is made of several layers. In float64, its gradients are
// the slopes of its loss.

#include <cmath>

#include <nlohmann/json.hpp>

#include "dsl/functions.h"
#include "dsl/layers/linear.h"
#include "dsl/optimizers/sgd.h"
#include "generators/checks/reference.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

constexpr int columns = 5, context = 7, batch = 2, head = 4;

struct Normed : Model {
    static inline AttentionOptions options;
    const int width = options.heads * head, channels = options.channels(width);

    Linear qkv{"qkv", columns, channels};
    Attention attend{"attention", options};
    MeanSquaredError criterion{"loss"};
    std::string task() const override { return "features"; }
    Tensor input(Graph &g) override { return g.input("features", {columns, context, batch}, Halide::Float(32)); }
    Tensor targets(Graph &g) override { return g.input("targets", {width, context, batch}, Halide::Float(32)); }
    Tensor forward(Tensor x) override { return attend(qkv(x)); }
    Tensor loss(Tensor y, Tensor targets) override { return criterion(y, targets); }
};

json wave(int64_t n, double scale, double shift, double middle = 0) {
    json list = json::array();
    for (int64_t i = 0; i < n; i++) list.push_back(middle + scale * std::sin(double(i * i % 97) + shift));
    return list;
}
/// A step of gradient descent of rate 1: what is taken from a parameter is its gradient.
json job(const AttentionOptions &o) {
    const int width = o.heads * head, channels = o.channels(width);
    return {{"scalars", {{"lr", 1.0}, {"beta1", 0.0}, {"clip", 0.0}, {"weight-decay", 0.0}}},
            {"parameters",
             {{"qkv.weight", wave(columns * channels, 0.6, 1)},
              {"qkv.bias", wave(channels, 0.2, 2)},
              {"attention.q_norm.weight", wave(head, 0.4, 3, 1.5)},
              {"attention.k_norm.weight", wave(head, 0.4, 4, 1.2)}}},
            {"batches",
             {{{"input", wave(columns * context * batch, 1, 5)}, {"targets", wave(width * context * batch, 1, 6)}}}}};
}

/// What each job comes to. In children: Funcs that are built here would change what kernels of later tests are called.
std::vector<json> run(const std::vector<json> &jobs) {
    std::vector<json> answers(jobs.size());
    share_jit_runtime();
    run_children(
        int(jobs.size()), 2, 120,
        [&](int i) {
            Normed model;
            Sgd optimizer;
            return reference_steps(model, optimizer, {}, jobs[size_t(i)].dump());
        },
        [&](int i, const ChildResult &r) {
            REQUIRE(r.error == "");
            answers[size_t(i)] = json::parse(r.output);
        });
    return answers;
}

}  // namespace

TEST_CASE("head norms: gradients are slopes, in float64") {
    const AttentionOptions all[] = {
        {.heads = 2, .head_norm = HeadNorm{head}},
        {.heads = 4, .kv_heads = 2, .causal = false, .rotary = Rotary{.base = 100}, .head_norm = HeadNorm{head, 1e-2}},
    };
    constexpr double h = 1e-5;
    for (const AttentionOptions &o : all) {
        CAPTURE(&o - all);
        Normed::options = o;
        const json given = job(o), before = given["parameters"];
        std::vector<json> jobs = {given};
        // Of all parameters, and of the gains of each norm alone.
        std::vector<std::string> moving = {""};
        if (&o == all) moving.insert(moving.end(), {"q_norm", "k_norm"});
        auto direction = [](const std::string &name, size_t i) { return std::cos(double(i) + double(name.size())); };
        auto moves = [](const std::string &name, const std::string &part) {
            return name.find(part) != std::string::npos;
        };
        for (const std::string &part : moving)
            for (double by : {h, -h}) {
                json &moved = jobs.emplace_back(given);
                for (auto &[name, values] : before.items())
                    for (size_t i = 0; moves(name, part) && i < values.size(); i++)
                        moved["parameters"][name][i] = double(values[i]) + by * direction(name, i);
            }
        const std::vector<json> answers = run(jobs);
        for (size_t k = 0; k < moving.size(); k++) {
            CAPTURE(moving[k]);
            double along = 0;
            for (auto &[name, values] : before.items())
                for (size_t i = 0; moves(name, moving[k]) && i < values.size(); i++)
                    along += direction(name, i) * (double(values[i]) - double(answers[0]["parameters"][name][i]));
            const double above = answers[2 * k + 1]["losses"][0], below = answers[2 * k + 2]["losses"][0];
            const double slope = (above - below) / (2 * h);
            CHECK(std::abs(slope) > 1e-4);
            CHECK(along == doctest::Approx(slope).epsilon(1e-6));
        }
    }
}

}  // namespace cryolite::test
