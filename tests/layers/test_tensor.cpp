// Functions on tensors: values, gradients, shapes that do not fit.

#include "dsl/tensor.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

/// A trace of one call, to test its layer.
struct Trace {
    Graph g;

    Tensor operator()(const Shape &s) { return g.input("x", s, Halide::Float(32)); }
    /// The layer of the last call, on inputs of the shapes that it was called on.
    LayerTester tester(std::vector<std::vector<double>> values = {}) {
        const Graph::Call &c = g.calls().back();
        LayerTester t(*c.layer);
        values.resize(c.inputs.size());
        for (size_t k = 0; k < c.inputs.size(); k++) t.input(g.values()[size_t(c.inputs[k])].shape, values[k]);
        return t;
    }
};

std::vector<double> counted(int n) {
    std::vector<double> v;
    for (int i = 0; i < n; i++) v.push_back(i + 1);
    return v;
}

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("tensors: extents of 1 and outer dimensions that are missing are repeated") {
    struct Way {
        Shape from, to;
        Numbers expected;
    };
    for (const Way &w :
         {Way{{3}, {3, 2}, {1, 2, 3, 1, 2, 3}}, Way{{1, 2}, {3, 2}, {1, 1, 1, 2, 2, 2}}, Way{{1}, {2, 2}, {1, 1, 1, 1}},
          Way{{2, 1}, {2, 2, 2}, {1, 2, 1, 2, 1, 2, 1, 2}}, Way{{3}, {3, 1}, {1, 2, 3}}}) {
        Trace t;
        CAPTURE(w.from.str());
        CHECK(broadcast(t(w.from), w.to).shape() == w.to);
        CHECK(output_of(t.tester({counted(int(w.from.size()))})) == w.expected);
        check_gradients(t.tester());
    }
    Trace t;
    CHECK((t({3, 2}) * t({3})).shape() == Shape{3, 2});
    CHECK((t({3, 1}) / t({1, 4})).shape() == Shape{3, 4});
    CHECK((t({1, 1, 2}) + t({5})).shape() == Shape{5, 1, 2});
    const Tensor same = t({3, 2});
    CHECK(broadcast(same, {3, 2}).id() == same.id());
}

TEST_CASE("tensors: differences, products, quotients and numbers, element by element") {
    const Numbers x = {1, 2, 3, 4, 5, 6}, y = {2, 4, 8, -1, -2, 0.5};
    {
        Trace t;
        CHECK((t({3, 2}) - t({3, 2})).shape() == Shape{3, 2});
        CHECK(output_of(t.tester({x, y})) == Numbers{-1, -2, -5, 5, 7, 5.5});
        check_gradients(t.tester().derived());
    }
    {
        Trace t;
        t({3, 2}) * t({3, 2});
        CHECK(output_of(t.tester({x, y})) == Numbers{2, 8, 24, -4, -10, 3});
        check_gradients(t.tester().derived());
    }
    {
        Trace t;
        t({3, 2}) / t({3, 2});
        CHECK(output_of(t.tester({x, y})) == Numbers{0.5, 0.5, 0.375, -4, -2.5, 12});
        check_gradients(t.tester({x, y}).derived());
    }
    {
        Trace t;
        1.5 - t({3, 2}) / 2;
        CHECK(t.g.calls().size() == 3);
        CHECK(output_of(t.tester({x})) == Numbers{2.5, 3.5, 4.5, 5.5, 6.5, 7.5});
        check_gradients(t.tester());
    }
}

TEST_CASE("tensors: one after the other, along each dimension") {
    Trace t;
    CHECK(concat({t({2, 3}), t({2, 1}), t({2, 2})}, 1).shape() == Shape{2, 6});
    CHECK(output_of(t.tester({counted(6), {10, 20}, {7, 8, 9, 10}})) == Numbers{1, 2, 3, 4, 5, 6, 10, 20, 7, 8, 9, 10});
    check_gradients(t.tester());
    CHECK(concat({t({2, 2}), t({1, 2})}, 0).shape() == Shape{3, 2});
    CHECK(output_of(t.tester({{1, 2, 3, 4}, {10, 20}})) == Numbers{1, 2, 10, 3, 4, 20});
    check_gradients(t.tester());
    concat({t({3, 5, 2}), t({3, 2, 2})}, 1);
    check_gradients(t.tester());
}

TEST_CASE("tensors: some elements along a dimension") {
    Trace t;
    CHECK(slice(t({3, 2}), 0, 1, 3).shape() == Shape{2, 2});
    CHECK(output_of(t.tester({counted(6)})) == Numbers{2, 3, 5, 6});
    check_gradients(t.tester());
    slice(t({3, 5, 4}), 1, 2, 3);
    check_gradients(t.tester());
    slice(t({3, 5, 4}), 2, 0, 4);
    check_gradients(t.tester());
}

TEST_CASE("tensors: dimensions in another order, and other shapes of the same elements") {
    Trace t;
    CHECK(transpose(t({3, 2})).shape() == Shape{2, 3});
    CHECK(output_of(t.tester({counted(6)})) == Numbers{1, 4, 2, 5, 3, 6});
    check_gradients(t.tester());
    CHECK(permute(t({2, 3, 5, 7}), {2, 0, 3, 1}).shape() == Shape{5, 2, 7, 3});
    check_gradients(t.tester());
    CHECK(transpose(t({2, 3, 5}), 0, 2).shape() == Shape{5, 3, 2});
    check_gradients(t.tester());
    CHECK(reshape(t({2, 6}), {3, 2, 2}).shape() == Shape{3, 2, 2});
    CHECK(output_of(t.tester({counted(12)})) == counted(12));
    check_gradients(t.tester());
}

TEST_CASE("tensors: sums and means over each dimension") {
    Trace t;
    CHECK(sum(t({3, 2}), 0).shape() == Shape{2});
    CHECK(output_of(t.tester({counted(6)})) == Numbers{6, 15});
    check_gradients(t.tester().derived());
    CHECK(mean(t({3, 2}), 1).shape() == Shape{3});
    CHECK(output_of(t.tester({counted(6)})) == Numbers{2.5, 3.5, 4.5});
    check_gradients(t.tester().derived());
    CHECK(mean(t({5}), 0).shape() == Shape{1});
    CHECK(output_of(t.tester({counted(5)}))[0] == doctest::Approx(3));
    check_gradients(t.tester());
    CHECK(sum(t({3, 5, 4}), 1).shape() == Shape{3, 4});
    check_gradients(t.tester());
}

TEST_CASE("tensors: what does not fit is refused with both shapes") {
    Trace t;
    CHECK_ERROR(t({3, 2}) * t({2, 3}),
                "[multiply] of 'x' [3, 2] and 'x' [2, 3]: extents must match or be 1, counted from the innermost");
    CHECK_ERROR(t({3, 2}) - t({2}),
                "[subtract] of 'x' [3, 2] and 'x' [2]: extents must match or be 1, counted from the innermost; "
                "reshape(x, {...}) gives a dimension that a sum or mean took away back");
    CHECK_ERROR(t({3, 2}) + t({3, 4}), "[add] of 'x' [3, 2] and 'x' [3, 4]: extents must match or be 1");
    CHECK_ERROR(broadcast(t({3, 2}), {3, 4}), "[broadcast] of [3, 2] to [3, 4]: its extents must match, or be 1");
    CHECK_ERROR(broadcast(t({3, 2}), {3}), "[broadcast] of [3, 2] to [3]: its extents must match, or be 1");
    CHECK_ERROR(t({3}) + INFINITY, "[plus] inf is added to a tensor, expected a finite number");
    CHECK_ERROR(concat({t({3, 2}), t({4, 2})}, 1),
                "[concat] of [3, 2] and [4, 2] along dimension 1: all other extents must match");
    CHECK_ERROR(concat({t({3, 2})}, 2),
                "[concat] is along dimension 2 of [3, 2]: dimensions are 0, the innermost, to 1");
    CHECK_ERROR(slice(t({3, 2}), 0, 1, 4),
                "[slice] takes 1 to 4 along dimension 0 of [3, 2]: expected 0 <= begin < end <= 3");
    CHECK_ERROR(reshape(t({3, 2}), {4, 2}),
                "[reshape] of [3, 2] to [4, 2]: the number of elements would change from 6 to 8");
    CHECK_ERROR(permute(t({3, 2}), {0, 0}),
                "[permute] of [3, 2] has the order [0, 0]: each of its dimensions, 0 to 1, is expected once");
    CHECK_ERROR(mean(t({3, 2}), 2), "[mean] is along dimension 2 of [3, 2]");
}

}  // namespace cryolite::test
