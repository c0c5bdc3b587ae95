// `check` takes every layer whose algorithm differs, whatever its type, and those that are alike once.

#include "dsl/tensor.h"
#include "generators/checks/check.h"
#include "tests/support/compiler.h"
#include "tests/support/curves.h"

namespace cryolite::test {

namespace {

struct Four : Classifier {
    Curve straight{"straight", false}, same{"same", false}, bent{"bent", true}, odd{"odd", true};
    Shape features() const override { return {10}; }
    Tensor forward(Tensor x) override { return odd(bent(same(straight(x)))); }
};

/// Layers that are made for one shape, some of whose extents a check would cut.
struct Rearranged : Classifier {
    Linear head{"head", 9, classes};
    Shape features() const override { return {5, 23}; }
    Tensor forward(Tensor x) override {
        const int n = x.shape()[2];
        const Tensor all = concat({slice(x, 1, 2, 21), 2 * slice(x, 1, 19, 23)}, 1);  // [5, 23, n]
        const Tensor pooled = mean(reshape(permute(all, {1, 0, 2}), {23, 5, n}), 0);
        return head(concat({pooled, slice(sum(all, 1), 0, 1, 5)}, 0));
    }
};

/// Its result is the same, whatever it is given.
struct Folded : Layer {
    const Shape made_for;
    Folded(const std::string &path, const Shape &x) : Layer(path), made_for(x) {}
    int rank() const override { return 1; }
    Shape shape(const Shape &) const override { return made_for; }
    Func forward(Array x) override {
        Var i("i");
        Func y("y");
        y(i) = 2 * x(int(made_for.size()) - 1 - i);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Var i("i");
        d(call.input())(i) = 2 * dy(int(made_for.size()) - 1 - i);
    }
};
struct Turned : Classifier {
    Folded folded{"folded", Shape{7, batch}};
    Linear head{"head", 7, classes};
    Shape features() const override { return {7}; }
    Tensor forward(Tensor x) override { return head(folded(x)); }
};

/// y = x table(0), the table a constant of the algorithm.
struct Table : Layer {
    Halide::Buffer<double> table{1, "table"};
    Table(const std::string &path, double value) : Layer(path) { table(0) = value; }
    Func forward(Array x) override {
        Var i("i"), r("r");
        Func y("y");
        y(i, r) = x(i, r) * table(0 * i);
        return y;
    }
};

std::string algorithm(Layer &layer, const Shape &shape = {10, 3}) {
    return LayerTester(layer).input(shape).algorithm();
}

}  // namespace

TEST_CASE("check: the instances of a type that differ are checked, too") {
    Arguments::current() = {};
    Four model;
    CHECK(compiler::check_gradients(model) == 0);
    model.odd.wrong = 1e-3f;
    CHECK(compiler::check_gradients(model) == 1);
    model.odd.wrong = 0, model.bent.wrong = 1e-3f;
    CHECK(compiler::check_gradients(model) == 1);
}

TEST_CASE("check: a layer that is made for one shape is given that one") {
    Arguments::current() = {};
    Rearranged model;
    CHECK(compiler::check_gradients(model) == 0);
    Turned turned;
    CHECK(compiler::check_gradients(turned) == 0);
    const Shape x{5, 3, 2};
    CHECK_ERROR(Slice(x, 1, 0, 2).shape(Shape{5, 2, 2}),
                "[slice] was made for an input of shape [5, 3, 2], not [5, 2, 2]");
    CHECK_ERROR(Concat({x, x}, 0).shape({x, Shape{4, 3, 2}}),
                "[concat] was made for an input of shape [5, 3, 2], not [4, 3, 2]");
    CHECK_ERROR(Reduce("sum", x, 1).shape(Shape{5, 2, 2}),
                "[sum] was made for an input of shape [5, 3, 2], not [5, 2, 2]");
    CHECK_ERROR(Reshape(x, {30}).shape(Shape{5, 2, 2}),
                "[reshape] of [5, 2, 2] to [30]: the number of elements would change from 20 to 30");
}

TEST_CASE("check: algorithms are told apart by everything in them") {
    Four m;
    CHECK(algorithm(m.straight) == algorithm(m.same));
    CHECK(algorithm(m.straight) != algorithm(m.bent));
    CHECK(algorithm(m.bent) == algorithm(m.odd));
    CHECK(algorithm(m.straight) != algorithm(m.straight, {10, 2}));
    m.bent.wrong = 1e-7f;  // the next float
    CHECK(algorithm(m.bent) != algorithm(m.odd));
    Table one("one", 1), again("again", 1), next("next", 1 + 1e-15);
    CHECK(algorithm(one) == algorithm(again));
    CHECK(algorithm(one) != algorithm(next));
    Linear narrow("narrow", 10, 4), wide("wide", 10, 5);
    CHECK(algorithm(narrow) != algorithm(wide));
}

}  // namespace cryolite::test
