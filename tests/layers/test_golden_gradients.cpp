// Layers of odd shapes against PyTorch's, and the gradients of their inputs: some elements of each, weights, inputs and
// adjoints from a formula.

#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/group_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/reshape.h"
#include "dsl/layers/resize.h"
#include "dsl/layers/rms_norm.h"
#include "dsl/losses/cross_entropy.h"
#include "tests/support/compiler.h"
#include "tests/support/goldens.h"

namespace cryolite::test {

namespace {

/// Every so-manyth of them, as make_goldens.py takes them.
void check_some(const std::vector<double> &found, const json &expected) {
    const size_t every = std::max<size_t>(1, found.size() / 97);
    REQUIRE((found.size() + every - 1) / every == expected.size());
    double worst = 0;
    for (size_t k = 0; k < expected.size(); k++)
        worst = std::max(worst, std::abs(found[k * every] - expected[k].get<double>()));
    CHECK(worst < 1e-8);
}

void check(const std::string &name, const LayerTester &tester) {
    CAPTURE(name);
    const json &golden = goldens().at("gradients").at(name);
    const std::vector<double> y = output_of(tester);
    check_some(y, golden["y"]);
    const std::vector<double> dy = y.size() == 1 ? std::vector<double>{1} : formula("dy", int64_t(y.size()));
    for (size_t k = 0; k < golden["gradients"].size(); k++)
        check_some(gradient_of(tester, int(k), dy), golden["gradients"][k]);
}

const Shape image{6, 8, 6, 2};
LayerTester of_image(Layer &layer) { return LayerTester(layer).input(image, formula("x", image.size())); }

}  // namespace

TEST_CASE("goldens: convolutions in groups, group norm, patch embedding") {
    for (auto [name, size, options] :
         {std::tuple{"convolution grouped", 3, Conv2DOptions{.groups = 2}},
          {"convolution grouped strided", 4, Conv2DOptions{.stride = 3, .padding = 2, .groups = 3}}}) {
        Conv2D layer("conv", 6, 12, size, options);
        check(name,
              of_image(layer).weight("weight", formula("w", layer.W.shape().size())).weight("bias", formula("b", 12)));
    }
    GroupNorm norm("norm", 3, 6);
    check("group norm", of_image(norm).weight("weight", formula("g", 6)).weight("bias", formula("b", 6)));

    // Patches, then a product: what a convolution with a stride of its size does.
    Patches patches("patches", 2);
    Linear embed("embed", 24, 5);
    const std::vector<double> cut = output_of(of_image(patches));
    const LayerTester product = LayerTester(embed)
                                    .input({24, 4 * 3, 2}, cut)
                                    .weight("weight", formula("w", 24 * 5))
                                    .weight("bias", formula("b", 5));
    const json &golden = goldens().at("gradients").at("patch embedding");
    check_some(output_of(product), golden["y"]);
    check_some(gradient_of(of_image(patches), 0, gradient_of(product, 0, formula("dy", 4 * 3 * 2 * 5))),
               golden["gradients"][0]);
}

TEST_CASE("goldens: pools and nearest resize") {
    for (const PoolOptions &o : {PoolOptions{2, 2, 0}, PoolOptions{3, 2, 1}, PoolOptions{3, 1, 0}}) {
        const std::string way = fmt::format("{} {} {}", o.size, o.stride, o.padding);
        MaxPool2D most("pool", o);
        AveragePool2D average("pool", o);
        check("max pool " + way, of_image(most));
        check("average pool " + way, of_image(average));
    }
    MaxPool most("pool");
    AveragePool average("pool");
    check("max pool 2 2 0", of_image(most));
    check("average pool 2 2 0", of_image(average));
    MeanPool mean("mean");
    check("global pool", of_image(mean));
    for (int factor : {2, 3}) {
        NearestResize layer("resize", factor);
        check(fmt::format("nearest {}", factor), of_image(layer));
    }
}

TEST_CASE("goldens: RMS norm, SwiGLU, GeGLU") {
    const Shape s{13, 7};
    RMSNorm norm("norm", 13), one_plus("norm", 13, {.one_plus = true});
    for (auto [name, layer] : {std::pair{"RMS norm", &norm}, {"RMS norm one plus", &one_plus}})
        check(name, LayerTester(*layer).input(s, formula("x", 91)).weight("weight", formula("g", 13)));
    SwiGLU swiglu("gate");
    GeGLU geglu("gate");
    for (auto [name, layer] : {std::pair<const char *, Layer *>{"SwiGLU", &swiglu}, {"GeGLU", &geglu}})
        check(name, LayerTester(*layer).input(s, formula("x", 91)).input(s, formula("up", 91)));
}

TEST_CASE("goldens: attention with each option, at a context that no block divides") {
    constexpr int context = 37, batch = 2, size = 6;
    const std::pair<const char *, AttentionOptions> ways[] = {
        {"causal", {.heads = 2}},
        {"bidirectional", {.heads = 2, .causal = false}},
        {"window", {.heads = 2, .window = 5}},
        {"window to both sides", {.heads = 2, .causal = false, .window = 5}},
        {"mask", {.heads = 2, .causal = false, .mask = true}},
        {"documents", {.heads = 2, .documents = true}},
        {"grouped", {.heads = 6, .kv_heads = 2}},
        {"all",
         {.heads = 4, .kv_heads = 2, .window = 20, .documents = true, .mask = true, .rotary = Rotary{.base = 100}}},
    };
    std::vector<double> documents, mask;
    for (int i = 0; i < context * batch; i++) {
        documents.push_back(i % context / 9 % 3);
        mask.push_back(i % context % 7 != 5);
    }
    for (const auto &[name, o] : ways) {
        Attention layer("attention", o);
        const Shape qkv{(layer.heads + 2 * layer.kv_heads) * size, context, batch};
        LayerTester tester(layer);
        tester.input(qkv, formula("qkv", qkv.size()));
        if (o.documents) tester.ids({context, batch}, 3, documents);
        if (o.mask) tester.ids({context, batch}, 2, mask);
        check(std::string("attention ") + name, tester);
    }
}

TEST_CASE("goldens: the options of cross-entropy") {
    std::vector<double> targets;
    std::vector<float> weights;
    for (int r = 0; r < 7; r++) targets.push_back(r * 5 % 13);
    for (int v = 0; v < 13; v++) weights.push_back(0.5f + 0.25f * float(v % 5));
    const std::pair<const char *, CrossEntropyOptions> ways[] = {
        {"", {}},
        {" ignored", {.ignored = 2}},
        {" smoothing", {.smoothing = 0.1}},
        {" weights", {.class_weights = weights}},
        {" all", {.ignored = 2, .smoothing = 0.1, .class_weights = weights}},
    };
    for (const auto &[name, o] : ways) {
        CrossEntropy layer("loss", o);
        double counted = 0;
        for (double t : targets)
            if (!o.ignored || t != *o.ignored) counted += o.class_weights.empty() ? 1 : double(weights[size_t(t)]);
        LayerTester tester(layer);
        tester.input({13, 7}, formula("x", 91)).ids({7}, 13, targets);
        if (!o.class_weights.empty()) tester.input({13}, {weights.begin(), weights.end()});
        if (o.ignored || !o.class_weights.empty()) tester.input({1}, {counted / 7});
        check(std::string("cross-entropy") + name, tester);
    }
}

}  // namespace cryolite::test
