// Layers without parameters, written as functions.

#include "dsl/functions.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

constexpr AttentionOptions grouped{.heads = 4, .kv_heads = 2};

struct Trace {
    Graph g;

    Tensor operator()(const std::string &name, const Shape &s) { return g.input(name, s, Halide::Float(32)); }
    /// The layer of the last call, on inputs of the shapes that it was called on.
    LayerTester tester(std::vector<double> x, std::vector<double> y = {}) {
        const Graph::Call &c = g.calls().back();
        LayerTester t(*c.layer);
        for (size_t k = 0; k < c.inputs.size(); k++) t.input(g.values()[size_t(c.inputs[k])].shape, k ? y : x);
        return t;
    }
};

}  // namespace

TEST_CASE("functions: a gated unit is the layer of that name, beside its gate") {
    Trace t;
    const Tensor y = swiglu(t("h.0.mlp.gate", {3, 5}), t("h.0.mlp.up", {3, 5}));
    CHECK(y.name() == "h.0.mlp.swiglu");
    CHECK(t.g.calls().back().layer->kind() == "SwiGLU");
    CHECK(geglu(t("gate", {3, 5}), t("up", {3, 5})).name() == "geglu");
    CHECK_ERROR(swiglu(t("m.gate", {3, 5}), t("m.up", {4, 5})),
                "[m.swiglu] the gate has shape [3, 5], but what it multiplies has shape [4, 5]: they must be equal");
}

TEST_CASE("functions: attention on three tensors is that on the channels of all, one after the other") {
    constexpr int context = 5, batch = 2, width = 8, of_keys = 4;
    Trace t;
    const Tensor y = attention(t("h.0.q", {width, context, batch}), t("h.0.k", {of_keys, context, batch}),
                               t("h.0.v", {of_keys, context, batch}), grouped);
    CHECK(y.shape() == Shape{width, context, batch});
    CHECK(y.name() == "h.0.attention");
    CHECK(t.g.calls().size() == 2);
    CHECK(t.g.calls()[0].layer->kind() == "Concat");
    CHECK(t.g.values()[size_t(t.g.calls()[0].output)].shape == Shape{grouped.channels(width), context, batch});
    // Queries in front, then keys, then values: the output of the first position is its value.
    std::vector<double> qkv(size_t(grouped.channels(width) * context * batch));
    for (size_t i = 0; i < qkv.size(); i++) qkv[i] = double(i % 16);
    const std::vector<double> out = output_of(t.tester(qkv));
    for (int c = 0; c < width; c++) CHECK(out[size_t(c)] == doctest::Approx(width + of_keys + c / 4 * 2 + c % 2));

    const Tensor qkv_of_one = attention(t("h.0.qkv", {16, context, batch}), grouped);
    CHECK(qkv_of_one.name() == "h.0.attention");
    CHECK(qkv_of_one.shape() == Shape{width, context, batch});
}

TEST_CASE("functions: attention on tensors that do not fit is refused by name") {
    Trace t;
    const Tensor q = t("h.0.q", {8, 5, 2}), k = t("h.0.k", {4, 5, 2}), wide = t("h.0.v", {8, 5, 2}),
                 mask = t.g.input("mask", {6, 2}, Halide::Int(32));
    CHECK_ERROR(attention(q, k, wide, grouped), "[h.0.attention] keys and values have 4 and 8 channels, expected 4 "
                                                "each (2 heads), beside queries of 8 channels (4 heads)");
    CHECK_ERROR(attention(t("q", {9, 5, 2}), k, k, grouped),
                "[attention] queries have 9 channels, which 4 heads do not divide");
    CHECK_ERROR(attention(q, k, k, {.heads = 4, .kv_heads = 2, .mask = true}, {mask}),
                "[h.0.attention] mask has shape [6, 2], expected one number for each position of [16, 5, 2]");
}

}  // namespace cryolite::test
