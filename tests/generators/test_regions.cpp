// How much of each Func a kernel computes.

#include "schedules/regions.h"

#include <doctest/doctest.h>

namespace cryolite::test {

using namespace Halide;

namespace {

const Var x{"x"}, y{"y"};

Group group_of(Func out) {
    Group g;
    g.out = out, g.extents = {7, 3};
    return g;
}

}  // namespace

TEST_CASE("regions: what the last elements of an output need of each Func") {
    Func a("a"), sum("sum"), out("out");
    RDom k(0, 5, "k");
    a(x, y) = x + y;
    sum(x, y) += a(k, y) * x;
    out(x, y) = sum(x, y) + a(x + 1, y);
    const Group g = group_of(out);

    const auto whole = needed(g, g.extents);
    REQUIRE(whole);
    CHECK(whole->at(a.name()) == Extents{8, 3});
    CHECK(whole->at(sum.name()) == Extents{7, 3});
    CHECK(whole->at(out.name()) == Extents{7, 3});
    const auto row = needed(g, {7, 1});
    REQUIRE(row);
    CHECK(row->at(a.name()) == Extents{8, 1});
    CHECK(row->at(sum.name()) == Extents{7, 1});
    const auto one = needed(g, {1, 1});
    REQUIRE(one);
    CHECK(one->at(a.name()) == Extents{8, 1});  // terms 0 to 4, and element 7
    CHECK(one->at(sum.name()) == Extents{1, 1});
    CHECK(volume({8, 3}) == 24);
    CHECK(volume({}) == 1);
}

TEST_CASE("regions: an index that only data know has none") {
    const ImageParam ids(Int(32), 1);
    Func a("a"), out("out");
    a(x) = x;
    out(x, y) = a(ids(x)) + y;
    CHECK(!needed(group_of(out), {7, 3}));
    Func within("within");
    within(x, y) = a(clamp(ids(x), 0, 10)) + y;
    const auto bounded = needed(group_of(within), {7, 3});
    REQUIRE(bounded);
    CHECK(bounded->at(a.name()) == Extents{11});
}

}  // namespace cryolite::test
