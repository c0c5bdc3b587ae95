// A layer that reads outside what it is given is refused, with its path, the array, the index and the extent; one that
// stays inside is not, however its indices are written.

#include "dsl/layers/linear.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

/// y(c, r) = x(at(c), r) w(c)
struct Shuffle : Layer {
    using Index = std::function<Expr(Expr c)>;
    Index at;
    Parameter w;

    Shuffle(const std::string &path, Index at, int width)
        : Layer(path), at(std::move(at)), w{this, "gain", {width}, ones} {}
    Func forward(Array x) override {
        Var c("c"), r("r");
        Func y("y");
        y(c, r) = x(at(c), r) * w(c);
        return y;
    }
};

/// y(c, r) = x(c, r) + sum over the first `reach` channels, those below `limit`.
struct Sum : Layer {
    int reach, limit;
    Sum(const std::string &path, int reach, int limit) : Layer(path), reach(reach), limit(limit) {}
    Func forward(Array x) override {
        Var c("c"), r("r");
        RDom k(0, reach, "k");
        k.where(k < limit);
        Func total("total"), y("y");
        total(r) += x(k, r);
        y(c, r) = x(c, r) + total(r);
        return y;
    }
};

constexpr int width = 6;

template <typename L> struct With : Classifier {
    L layer;
    Linear head{"head", width, classes};
    template <typename... Given> explicit With(Given... given) : layer("odd", given...) {}
    Shape features() const override { return {width}; }
    Tensor forward(Tensor x) override { return head(layer(x)); }
};

template <typename L, typename... Given> std::string message(Given... given) {
    return error_of([&] {
        Arguments::current() = {};
        Machine machine = Machine::of(test_target());
        Step step(machine);
        AdamW rule;
        With<L> model(given...);
        lower({.model = model, .optimizer = rule, .schedule = step, .oracle = reads_by_building(machine, 2, 60)});
    });
}
std::string shuffled(Shuffle::Index at, int gains = width) { return message<Shuffle>(std::move(at), gains); }

}  // namespace

TEST_CASE("reads outside an input") {
    CHECK(shuffled([](Expr c) { return c + 1; }) ==
          "'odd': [odd] Shuffle: input 0 (features) is read at index 6 of dimension 0, where its extent is 6; indices "
          "begin at 0: clamp the index, or build the layer for this extent");
    CHECK_ERROR(fail("{}", shuffled([](Expr c) { return c - 2; })), "read at index -2 of dimension 0");
    // Both sides of a select are computed.
    CHECK_ERROR(fail("{}", shuffled([](Expr c) { return select(c < 3, c + 4, c); })), "read at index 6");
    CHECK_ERROR(fail("{}", message<Sum>(width + 5, width + 5)), "read at index 10 of dimension 0");
}

TEST_CASE("reads outside a parameter") {
    CHECK_ERROR(fail("{}", shuffled([](Expr c) { return c; }, width - 1)),
                "parameter 'gain' is read at index 5 of dimension 0, where its extent is 5");
}

TEST_CASE("reads inside, however they are written") {
    CHECK(shuffled([](Expr c) { return c; }) == "");
    CHECK(shuffled([](Expr c) { return clamp(c + 1, 0, width - 1); }) == "");
    CHECK(shuffled([](Expr c) { return (c + 4) % width; }) == "");
    // The bounds of each term by itself would give -3 ... 8.
    CHECK(shuffled([](Expr c) { return c + select(c < 3, 3, -3); }) == "");
    CHECK(shuffled([](Expr c) { return c / 2 * 2 + 1 - c % 2; }) == "");
    CHECK(message<Sum>(width, width) == "");
    CHECK(message<Sum>(width + 5, width) == "");  // the domain's condition leaves out the rest
}

}  // namespace cryolite::test
