// An algorithm of one row made one of all rows: the same numbers, row by row.

#include "generators/passes/placement/by_row.h"

#include "dsl/losses/cross_entropy.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

using namespace Halide;

constexpr int classes = 7, rows = 5;

Func slice(const Func &x, const Expr &at) {
    Func one("row");
    std::vector<Var> v(size_t(x.dimensions()));
    std::vector<Expr> index(v.begin(), v.end());
    index.back() += at;
    one(v) = x(index);
    return one;
}

}  // namespace

TEST_CASE("by row: sums, maxima and indices that depend on data") {
    const std::string differ = in_child([] {
        Func x("x"), targets("targets");
        Var v("v"), r("r"), row("row_of_loss");
        x(v, r) = cast<float>((v * 5 + r * 3) % 11) / 4;
        targets(r) = (r * 2) % classes;
        Param<int> at("at");
        CrossEntropy loss;
        auto alone = [&](const Expr &of) {
            return loss.forward({Array(slice(x, of), Shape{classes, 1}), Array(slice(targets, of), Shape{1})});
        };
        const Buffer<float> all = by_row(alone(at), at.name(), row).realize({1, rows});
        std::string wrong;
        for (int k = 0; k < rows; k++) {
            const Buffer<float> one = alone(k).realize({1});
            if (one(0) != all(0, k)) wrong += fmt::format("row {}: {} and not {}; ", k, all(0, k), one(0));
        }
        return wrong;
    });
    CHECK(differ == "");
}

TEST_CASE("by row: several results, several updates; what does not depend on the row stays as it is") {
    const std::string differ = in_child([] {
        Func x("x"), best("best"), shared("shared"), f("f");
        Var v("v"), r("r"), u("u"), row("row_of_loss");
        Param<int> at("at");
        x(v, r) = (v * 5 + r * 3) % 11;
        Func one = slice(x, at);
        RDom k(0, classes, "k");
        best(u) = Tuple(0, -1);
        best(u) = Tuple(select(one(k, u) > best(u)[1], k, best(u)[0]), max(one(k, u), best(u)[1]));
        shared(u) += k * u;
        f(u) = best(u)[0] + 100 * best(u)[1] + 10000 * shared(u + 3);
        f(u) += one(0, u);
        const Buffer<int> all = by_row(f, at.name(), row).realize({1, rows});
        std::string wrong;
        for (int i = 0; i < rows; i++) {
            int place = 0, largest = -1;
            for (int c = 0; c < classes; c++)
                if (const int e = (c * 5 + i * 3) % 11; e > largest) place = c, largest = e;
            const int expected = place + 100 * largest + 10000 * 63 + i * 3 % 11;
            if (all(0, i) != expected) wrong += fmt::format("row {}: {} and not {}; ", i, all(0, i), expected);
        }
        return wrong;
    });
    CHECK(differ == "");
}

TEST_CASE("by row: a domain that depends on the row is refused") {
    CHECK_ERROR(in_child([] {
                    Func sum("sum");
                    Var u("u"), row("row_of_loss");
                    Param<int> at("at");
                    RDom k(0, classes, "k");
                    k.where(k < at);
                    sum(u) += k;
                    by_row(sum, at.name(), row);
                    return std::string();
                }),
                "the domain of a sum in 'sum' depends on the row");
}

}  // namespace cryolite::test
