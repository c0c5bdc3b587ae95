// `check` takes every layer whose algorithm differs, whatever its type, and those that are alike once.

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
