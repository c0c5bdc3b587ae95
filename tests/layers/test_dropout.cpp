// Layers that do in training what they do not do in evaluation: Dropout's masks.

#include <cmath>
#include <set>

#include "dsl/layers/dropout.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

struct Pass {
    int training = 1, seed = 7, high = 0, step = 0, parts = 0, stream = 0;
};

std::vector<double> dropped(Dropout &layer, const Shape &s, const std::vector<double> &x, const Pass &p) {
    const std::vector<double> mode = {double(p.training), double(p.seed), double(p.high), double(p.step),
                                      double(p.parts)};
    return output_of(LayerTester(layer).input(s, x).ids({Graph::mode_words}, 2, mode).input({1}, {double(p.stream)}));
}

std::vector<double> ones_of(const Shape &s) { return std::vector<double>(size_t(s.size()), 1.0); }

}  // namespace

TEST_CASE("Philox-4x32-10 makes the words of its authors' test vectors") {
    struct Vector {
        uint32_t key[2], counter[4], first;
    };
    constexpr uint32_t all = 0xffffffff;
    const Vector known[] = {
        {{0, 0}, {0, 0, 0, 0}, 0x6627e8d5},
        {{all, all}, {all, all, all, all}, 0x408f276d},
        {{0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xd16cfe09},
    };
    for (const Vector &v : known) {
        const std::string found = in_child([&] {
            Func f("word");
            f() = philox({Expr(v.key[0]), Expr(v.key[1])},
                         {Expr(v.counter[0]), Expr(v.counter[1]), Expr(v.counter[2]), Expr(v.counter[3])});
            Halide::Buffer<uint32_t> word = f.realize();
            return fmt::format("{:08x}", word());
        });
        CHECK(found == fmt::format("{:08x}", v.first));
    }
}

TEST_CASE("Dropout: a share of elements is 0, the rest is larger by as much; mean and variance are those of a coin") {
    const Shape s{61, 67, 5};
    for (double p : {0.1, 0.5, 0.8}) {
        CAPTURE(p);
        Dropout layer("drop", p);
        const auto y = dropped(layer, s, ones_of(s), {});
        const double n = double(y.size());
        double sum = 0, squares = 0, in_pairs = 0;
        int neither = 0;
        for (size_t i = 0; i < y.size(); i++) {
            neither += y[i] != 0 && std::abs(y[i] * (1 - p) - 1) > 1e-12;
            sum += y[i], squares += (y[i] - 1) * (y[i] - 1);
            if (i > 0) in_pairs += (y[i] - 1) * (y[i - 1] - 1);
        }
        CHECK(neither == 0);
        const double variance = p / (1 - p);  // of an element
        CHECK(std::abs(sum / n - 1) < 4 * std::sqrt(variance / n));
        CHECK(squares / n == doctest::Approx(variance).epsilon(0.05));
        CHECK(std::abs(in_pairs / n) < 4 * variance / std::sqrt(n));  // neighbours know nothing of each other
    }
}

TEST_CASE("Dropout: gradients in training and in evaluation, in any number of dimensions") {
    Dropout layer("drop", 0.3);
    for (const Shape &s : {Shape{13, 7}, Shape{5, 3, 7}, Shape{11}})
        for (double training : {1.0, 0.0})
            check_gradients(
                LayerTester(layer).input(s).ids({Graph::mode_words}, 2, {training, 3, 0, 5, 1}).input({1}, {2.0}));
}

TEST_CASE("Dropout: the mask follows from seed, step, call and the element's number in the whole batch") {
    Dropout layer("drop", 0.5);
    const Shape whole{13, 6}, half{13, 3};
    const auto all = dropped(layer, whole, ones_of(whole), {});
    // Two parts of the batch have the masks that the whole has there, whether they are micro-batches or workers.
    for (int part : {0, 1}) {
        const auto y = dropped(layer, half, ones_of(half), {.parts = part});
        CHECK(y == std::vector<double>(all.begin() + part * 39, all.begin() + (part + 1) * 39));
    }
    // However many dimensions the kernel folds it into.
    CHECK(dropped(layer, {13, 3, 2}, ones_of(whole), {}) == all);
    std::set<std::vector<double>> masks = {all};
    for (const Pass &p : {Pass{.seed = 8}, Pass{.high = 1}, Pass{.step = 1}, Pass{.parts = 1}, Pass{.stream = 1}})
        CHECK(masks.insert(dropped(layer, whole, ones_of(whole), p)).second);
    CHECK(dropped(layer, whole, ones_of(whole), {.training = 0}) == ones_of(whole));
}

TEST_CASE("Dropout: elements beyond the first 2^32 of a batch have numbers of their own") {
    Dropout layer("drop", 0.5);
    const Shape s{1 << 16};
    const auto first = dropped(layer, s, ones_of(s), {}), far = dropped(layer, s, ones_of(s), {.parts = 1 << 16});
    CHECK(first != far);
}

TEST_CASE("Dropout: what it may not be is refused by name; a probability of 0 adds nothing to a step") {
    for (double p : {1.0, -0.1, 1.5, double(NAN)})
        CHECK_ERROR(Dropout("h.0.drop", p), "[h.0.drop] has a probability of");
    CHECK_ERROR(Dropout("drop", 1), "[drop] has a probability of 1, expected 0 to less than 1");
    Graph g;
    Tensor x = g.input("x", {3, 2}, Halide::Float(32));
    Dropout none("none", 0), some("some", 0.5);
    CHECK(none(x).id() == x.id());
    CHECK(g.calls().empty());
    some(some(x));
    REQUIRE(g.calls().size() == 2);
    auto stream = [&](int call) { return g.values()[size_t(g.calls()[size_t(call)].inputs[2])].constant; };
    CHECK(stream(0) != stream(1));
    CHECK(g.calls()[0].inputs[1] == g.calls()[1].inputs[1]);  // one mode
    CHECK_ERROR(static_cast<Layer &>(some).shape(std::vector<Shape>{Shape{3, 2}}),
                "[some] is called without the mode of the run");
}

}  // namespace cryolite::test
