// Groups of parameters: whom they match, and that they take no kernels of their own.

#include <set>

#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "bundle/param_group.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Two : Classifier {
    Linear up{"h.0.up", 8, 8}, down{"h.1.up", 8, 8}, head{"head", 8, classes};
    LayerNorm norm{"norm", 8};
    Shape features() const override { return {8}; }
    Tensor forward(Tensor x) override { return head(norm(down(up(x)))); }
};

Compiled<Two> two(const std::vector<std::string> &groups) {
    StepOptions options;
    for (const std::string &text : groups) options.param_groups.push_back(ParamGroup::parse(text).value());
    return Compiled<Two>({{"batch", "4"}}, {}, options);
}

const ir::ParamGroup &group_of(const Compiled<Two> &c, const std::string &path) {
    for (const ir::Parameter &w : c.program.parameters)
        if (w.path == path) return c.program.groups.at(size_t(w.group));
    fail("no parameter {}", path);
}

}  // namespace

TEST_CASE("groups of parameters: later ones win, setting by setting; equal ones are one") {
    const Compiled<Two> c = two({"h=lr:0.5x,decay:0", "h.1=lr:2e-3", "*.bias=lr:0.5x", "head=lr:0.5x,decay:0"});
    CHECK(group_of(c, "h.0.up.weight").lr == GroupValue{0.5, true});
    CHECK(group_of(c, "h.0.up.weight").decay == GroupValue{0, false});
    CHECK(group_of(c, "h.1.up.weight").lr == GroupValue{2e-3, false});
    CHECK(group_of(c, "h.1.up.weight").decay == GroupValue{0, false});
    CHECK(group_of(c, "h.1.up.bias").lr == GroupValue{0.5, true});
    CHECK(!group_of(c, "norm.weight").lr);
    CHECK(group_of(c, "norm.bias").lr == GroupValue{0.5, true});
    CHECK(!group_of(c, "norm.bias").decay);
    CHECK(&group_of(c, "head.weight") == &group_of(c, "h.0.up.weight"));
    CHECK(c.program.groups.size() == 4);
    const ir::Value &scalars = c.program.values[c.program.scalars];
    CHECK(scalars.shape == Shape{4 * c.program.scalars_apart});
    CHECK(c.program.scalars_apart * 8 % 64 == 0);
}

TEST_CASE("groups of parameters: without any, there is one set of scalars") {
    const Compiled<Two> c = two({});
    CHECK(c.program.groups.empty());
    CHECK(c.program.values[c.program.scalars].shape == Shape{int(c.program.scalar_names.size())});
}

TEST_CASE("groups of parameters: their updates are the kernels of all others") {
    const std::vector<std::string> plain = two({}).keys();
    const std::vector<std::string> grouped = two({"h.0=lr:0.1x,decay:0", "head=lr:1e-3"}).keys();
    CHECK(std::set(plain.begin(), plain.end()) == std::set(grouped.begin(), grouped.end()));
}

TEST_CASE("groups of parameters: refused where they match nothing, or set what is not there") {
    CHECK_ERROR(two({"haed=lr:2x"}), "the group of parameters 'haed=lr:2x' matches no parameter; the nearest are head");
    CHECK_ERROR(two({"h.0.up.wieght=lr:2x"}), "the nearest are h.0.up.weight");
    CHECK_ERROR(two({"*.bias=decay:0.1"}), "the group of parameters '*.bias=decay:0.1' sets a decay, but all that it "
                                           "matches are biases or gains, which do not decay");
}

}  // namespace cryolite::test
