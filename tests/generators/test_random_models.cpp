// The models that the fuzzer makes of numbers: any numbers make one that can be traced, and the same ones the same.

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "generators/fuzz/layers.h"
#include "generators/fuzz/random_model.h"

namespace cryolite::test {

using fuzz::RandomModel;

namespace {

/// A model of these arguments, which other tests must not see.
std::unique_ptr<RandomModel> model_of(std::vector<std::pair<std::string, std::string>> given) {
    const Arguments before = Arguments::current();
    Arguments::current().given = std::move(given);
    auto model = std::make_unique<RandomModel>();
    Arguments::current() = before;
    return model;
}

std::string choices(std::mt19937 &rng) {
    std::string text;
    for (size_t g = 0, groups = 1 + rng() % 6; g < groups; g++) {
        if (g) text += '/';
        for (int k = 0; k < 14; k++) text += (k ? "." : "") + std::to_string(rng() % 256);
    }
    return text;
}

struct Traced {
    std::set<std::string> kinds{};
    std::string program;
    int twice = 0;  ///< calls of layers that were called before
};

Traced trace(RandomModel &m) {
    Graph g;
    const Tensor x = m.input(g), targets = m.targets(g), loss = m.loss(m.forward(x), targets);
    CHECK(loss.shape().size() == 1);
    Traced t{.program = m.program()};
    std::set<const Layer *> met;
    for (const Graph::Call &c : g.calls()) t.kinds.insert(c.layer->kind()), t.twice += !met.insert(c.layer).second;
    return t;
}

}  // namespace

TEST_CASE("random models: any numbers make a model that can be traced") {
    std::mt19937 rng(1);
    std::set<std::string> kinds;
    int twice = 0;
    for (int n = 0; n < 300; n++) {
        const std::string text = choices(rng), kind = std::to_string(1 + n % 3);
        CAPTURE(text);
        const Traced t = trace(*model_of({{"choices", text}, {"kind", kind}}));
        CHECK(trace(*model_of({{"choices", text}, {"kind", kind}})).program == t.program);
        kinds.insert(t.kinds.begin(), t.kinds.end());
        twice += t.twice;
    }
    CHECK(twice > 20);
    for (const char *kind :
         {"Embedding",    "TiedHead",     "Linear",           "LayerNorm",       "RMSNorm",     "Gelu",
          "Relu",         "SiLU",         "SwiGLU",           "CausalAttention", "Curve",       "Gain",
          "Add",          "Subtract",     "Multiply",         "Times",           "Concat",      "Slice",
          "StopGradient", "CrossEntropy", "MeanSquaredError", "Huber",           "Distillation"})
        CHECK_MESSAGE(kinds.count(kind), kind);
}

TEST_CASE("random models: their schedules have lines, which their numbers leave out") {
    std::mt19937 rng(2);
    const Machine machine = Machine::of(Halide::get_host_target());
    std::set<int> hows;
    size_t again = 0;
    for (int n = 0; n < 100; n++) {
        const std::string text = choices(rng);
        auto model = model_of({{"choices", text}});
        Step step(machine), rest(machine);
        model->schedule(step);
        for (auto &[stage, placement] : step.placements) {
            hows.insert(int(placement.how));
            CHECK(placement.source.starts_with("line "));
        }
        again += step.rematerialised.size();
        if (step.placements.empty()) continue;
        const std::string first = step.placements[0].second.source;
        model_of({{"choices", text}, {"without", first.substr(5)}})->schedule(rest);
        // Another line of the same stage may be met now.
        CHECK(rest.placements.size() >= step.placements.size() - 1);
        for (auto &[stage, placement] : rest.placements) CHECK(placement.source != first);
    }
    CHECK(hows.size() == 3);
    CHECK(again > 10);
}

TEST_CASE("random models: lines name one call of a layer that is called several times, also as a program") {
    std::mt19937 rng(3);
    const Machine machine = Machine::of(Halide::get_host_target());
    int of_one_call = 0;
    for (int n = 0; n < 1000; n++) {
        const std::string text = choices(rng);
        CAPTURE(text);
        auto model = model_of({{"choices", text}});
        Step step(machine);
        model->schedule(step);
        for (auto &[stage, placement] : step.placements) {
            if (!stage.call) continue;
            of_one_call++;
            CHECK(model->program().find(fmt::format("m.{})[{}]", stage.layer->path, stage.call)) != std::string::npos);
        }
    }
    CHECK(of_one_call > 10);
}

TEST_CASE("random models: as a program") {
    const std::string text = model_of({{"choices", "0"}})->program();
    CHECK(text.find("Embedding l0{\"l0\", 19, 6, normal(0.5)};") != std::string::npos);
    CHECK(text.find("v.push_back(l0(v[0]));") != std::string::npos);
    CHECK(text.find("return loss0(v[2], targets);") != std::string::npos);
    CHECK(text.find("program<Found, schedule>") != std::string::npos);
}

TEST_CASE("random models: numbers that are none are refused") {
    CHECK_THROWS_WITH(model_of({{"choices", "1.x"}}), doctest::Contains("'x'"));
    CHECK_THROWS_WITH(model_of({{"choices", "300"}}), doctest::Contains("0 to 255"));
}

}  // namespace cryolite::test
