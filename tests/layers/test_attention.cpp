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
                    for (int e = 0; e < 2; e++) dot += at(0, c / 2 * 2 + e, t, s) * at(1, c / 2 * 2 + e, j, s);
                    double p = std::exp(dot / std::sqrt(2.0));
                    total += p, sum += p * at(2, c, j, s);
                }
                CHECK(y[size_t((s * context + t) * width + c)] == doctest::Approx(sum / total).epsilon(1e-9));
            }
}

namespace {

/// Attention as it is defined, position by position.
struct Reference {
    AttentionOptions o;
    int size, context, batch;
    std::vector<double> qkv, documents = {}, mask = {};

    int kv_heads() const { return o.kv_heads ? o.kv_heads : o.heads; }
    int channels() const { return (o.heads + 2 * kv_heads()) * size; }
    /// A channel of queries (part 0), keys (1) or values (2), turned by its position.
    double at(int part, int head, int e, int t, int s) const {
        const int first = part == 0 ? 0 : (o.heads + (part - 1) * kv_heads()) * size;
        auto raw = [&](int c) { return qkv[size_t((s * context + t) * channels() + first + head * size + c)]; };
        if (!o.rotary || part == 2) return raw(e);
        const Rotary &r = *o.rotary;
        const int pair = e % (size / 2);
        double f = std::pow(r.base, -2.0 * pair / size);
        if (r.factor != 1) {
            const double wavelength = 2 * M_PI / f;
            if (wavelength > r.original / r.low)
                f /= r.factor;
            else if (wavelength > r.original / r.high) {
                const double smooth = (r.original / wavelength - r.low) / (r.high - r.low);
                f = (1 - smooth) * f / r.factor + smooth * f;
            }
        }
        const double c = std::cos(t * f), n = std::sin(t * f);
        return e < size / 2 ? raw(e) * c - raw(e + size / 2) * n : raw(e) * c + raw(e - size / 2) * n;
    }
    bool sees(int i, int j, int s) const {
        if (o.causal && j > i) return false;
        if (o.window && std::abs(i - j) >= o.window) return false;
        if (o.documents && documents[size_t(s * context + i)] != documents[size_t(s * context + j)]) return false;
        return !o.mask || mask[size_t(s * context + j)] != 0;
    }
    double output(int h, int e, int t, int s) const {
        const int g = h / (o.heads / kv_heads());
        double total = 0, sum = 0;
        for (int j = 0; j < context; j++) {
            if (!sees(t, j, s)) continue;
            double dot = 0;
            for (int d = 0; d < size; d++) dot += at(0, h, d, t, s) * at(1, g, d, j, s);
            const double p = std::exp(dot / std::sqrt(double(size)));
            total += p, sum += p * at(2, g, e, j, s);
        }
        return total > 0 ? sum / total : 0;
    }
};

LayerTester tester(Attention &layer, const Reference &r) {
    LayerTester t(layer);
    t.input({r.channels(), r.context, r.batch}, r.qkv);
    if (r.o.documents) t.ids({r.context, r.batch}, 3, r.documents);
    if (r.o.mask) t.ids({r.context, r.batch}, 2, r.mask);
    return t;
}

}  // namespace

TEST_CASE("Attention: what each option means, and its gradient") {
    const AttentionOptions all[] = {
        {.heads = 2, .causal = false, .mask = true},
        {.heads = 6, .kv_heads = 2},
        {.heads = 3, .kv_heads = 1, .causal = false, .window = 5},
        {.heads = 2, .window = 18, .documents = true},
        {.heads = 2, .window = 1},
        {.heads = 4, .kv_heads = 2, .window = 20, .documents = true, .mask = true, .rotary = Rotary{.base = 100}},
        {.heads = 2, .rotary = Rotary{.base = 500, .factor = 8, .low = 1, .high = 4, .original = 64}},
    };
    for (const AttentionOptions &o : all)
        for (int context : {7, 37}) {
            if (context == 7 && o.causal) continue;  // one block: what differs is its edge
            CAPTURE(&o - all);
            CAPTURE(context);
            Attention layer("attn", o);
            Reference r{o, 6, context, 2, {}};
            r.qkv.resize(size_t(r.channels() * context * r.batch));
            for (size_t i = 0; i < r.qkv.size(); i++) r.qkv[i] = std::sin(double(i * i % 997)) + 0.01;
            for (int i = 0; i < context * r.batch; i++) {
                r.documents.push_back(i % context / 9 % 3);
                r.mask.push_back(i % 5 != 3);  // position 18, the first of its document, sees nothing
            }
            const std::vector<double> y = output_of(tester(layer, r));
            double worst = 0;
            for (int s = 0; s < r.batch; s++)
                for (int t = 0; t < context; t++)
                    for (int c = 0; c < o.heads * r.size; c++) {
                        const double expected = r.output(c / r.size, c % r.size, t, s);
                        worst =
                            std::max(worst, std::abs(y[size_t((s * context + t) * o.heads * r.size + c)] - expected));
                    }
            CHECK(worst < 1e-9);
            check_gradients(tester(layer, r));
        }
}

namespace {

/// All elements of a Func whose sums have a loop each.
std::vector<double> elements(Halide::Func f, const std::vector<int> &extents) {
    for (const auto &[name, g] : Halide::Internal::find_transitive_calls(f.function()))
        if (g.has_update_definition() && name != f.name()) Halide::Func(g).compute_root();
    const Halide::Buffer<float> out = f.realize(extents);
    return {out.begin(), out.end()};
}

/// The largest difference, relative to the largest number.
double distance_between(const std::vector<double> &a, const std::vector<double> &b) {
    double most = 0, scale = 0;
    for (size_t i = 0; i < a.size(); i++)
        most = std::max(most, std::fabs(a[i] - b[i])), scale = std::max(scale, std::fabs(a[i]));
    return most / scale;
}

}  // namespace

TEST_CASE("Attention: of bf16, terms in pairs come to what terms one by one do, and are near fp32's") {
    const AttentionShape shapes[] = {
        {.heads = 2, .kv_heads = 2, .size = 6, .context = 37},
        {.heads = 4, .kv_heads = 2, .size = 4, .context = 37, .window = 20, .rotary = Rotary{.base = 100}},
        {.heads = 2, .kv_heads = 1, .size = 8, .context = 21, .causal = false},
        {.heads = 1, .kv_heads = 1, .size = 5, .context = 21},  // an odd head has no pairs
    };
    for (const AttentionShape &shape : shapes) {
        CAPTURE(&shape - shapes);
        const int width = shape.heads * shape.size, channels = width + 2 * shape.kv_heads * shape.size;
        const auto results = [&](const HalfFactors &halves) {
            return numbers_in_child([&] {
                Halide::Var c("c"), t("t"), s("s");
                Halide::Func qkv("x"), dy("dy");
                qkv(c, t, s) = sin(Halide::cast<float>((c * 31 + t * 17 + s * 7) % 97));
                dy(c, t, s) = cos(Halide::cast<float>((c * 13 + t * 29 + s * 5) % 89));
                const auto algorithm = [&] { return AttentionAlgorithm(qkv, Halide::Float(32), shape, halves); };
                std::vector<double> all = elements(algorithm().forward(), {width, shape.context, 2});
                const std::vector<double> d = elements(algorithm().backward(dy), {channels, shape.context, 2});
                all.insert(all.end(), d.begin(), d.end());
                return all;
            });
        };
        const std::vector<double> whole = results({}), single = results({.format = bf16}),
                                  pairs = results({.format = bf16, .pairs = true});
        CHECK(whole.size() == size_t((width + channels) * shape.context * 2));
        CHECK(distance_between(single, pairs) < 4e-3);  // a sum in another order may be rounded to the other side
        CHECK(distance_between(whole, pairs) < 3e-2);
        CHECK(distance_between(whole, single) > 1e-4);
    }
}

TEST_CASE("Attention: of bf16, large scores make no weight above 1") {
    for (const float size : {1e4f, 1e9f, 1e12f}) {
        const std::vector<double> y = numbers_in_child([&] {
            Halide::Var c("c"), t("t"), s("s");
            Halide::Func qkv("x");
            qkv(c, t, s) = size * sin(Halide::cast<float>((c * 31 + t * 17 + s * 7) % 97));
            AttentionAlgorithm algorithm(qkv, Halide::Float(32), {.heads = 2, .kv_heads = 2, .size = 6, .context = 21},
                                         {.format = bf16, .pairs = true});
            return elements(algorithm.forward(), {12, 21, 2});
        });
        CAPTURE(size);
        for (double v : y) CHECK(std::fabs(v) <= 1.01 * size);
    }
}

TEST_CASE("Attention: shapes") {
    Attention grouped("attn", {.heads = 6, .kv_heads = 2, .rotary = Rotary{}});
    CHECK(grouped.shape(std::vector{Shape{10 * 8, 37, 2}}) == Shape{48, 37, 2});
    CHECK_ERROR(grouped.shape(std::vector{Shape{81, 37, 2}}),
                "[attn] 81 channels are not divisible by 6 heads of queries and 2 x 2 of keys and values");
    CHECK_ERROR(grouped.shape(std::vector{Shape{10 * 7, 37, 2}}),
                "[attn] rotary positions turn pairs of channels, but a head has 7: expected an even number");
    CHECK_ERROR(grouped.shape(std::vector{Shape{80, 37, 2}, Shape{37, 2}}), "[attn] has 2 inputs, expected 1: qkv");
    CHECK_ERROR(Attention("attn", {.heads = 6, .kv_heads = 4}),
                "[attn] 6 heads cannot share 4 heads of keys and values: expected a divisor of the first number");
    CHECK_ERROR(Attention("attn", {.heads = 6, .window = -1}), "[attn] has a window of -1, expected 0 (all) or more");
    Attention packed("attn", {.heads = 1, .documents = true});
    CHECK(packed.shape(std::vector{Shape{24, 37, 2}, Shape{37, 2}}) == Shape{8, 37, 2});
    CHECK_ERROR(packed.shape(std::vector{Shape{24, 37, 2}, Shape{36, 2}}),
                "[attn] documents has shape [36, 2], expected one number for each position of [24, 37, 2]");
    Attention masked("attn", {.heads = 1, .mask = true}), both("attn", {.heads = 1, .documents = true, .mask = true});
    for (const Shape &mask : {Shape{36, 2}, Shape{37, 3}, Shape{37}})
        CHECK_ERROR(masked.shape(std::vector{Shape{24, 37, 2}, mask}),
                    "[attn] mask has shape " + mask.str() + ", expected one number for each position of [24, 37, 2]");
    CHECK_ERROR(both.shape(std::vector{Shape{24, 37, 2}, Shape{37, 2}, Shape{38, 2}}),
                "[attn] mask has shape [38, 2], expected one number for each position of [24, 37, 2]");
    CHECK_ERROR(both.shape(std::vector{Shape{24, 37, 2}, Shape{37, 2}}),
                "[attn] has 2 inputs, expected 3: qkv, documents, mask");
}

TEST_CASE("CausalAttention: shapes") {
    CausalAttention layer("h.0.attn", 5);
    CHECK(layer.shape(Shape{255, 37, 2}) == Shape{85, 37, 2});
    CHECK_ERROR(layer.shape(Shape{3 * 64, 32, 2}), "[h.0.attn] width 64 is not divisible by 5 heads");
    CHECK_ERROR(
        layer.shape(Shape{2 * 64, 32, 2}),
        "[h.0.attn] input [128, 32, 2] has 128 channels, expected those of queries, keys and values side by side: "
        "three times a width that 5 heads divide");
    CHECK_ERROR(CausalAttention("h.0.attn", 0), "[h.0.attn] has 0 heads, expected at least 1");
    CHECK_ERROR(layer.shape(Shape{255}), "[h.0.attn]");
}

}  // namespace cryolite::test
