// nature() is held against what a layer computes, and a layer that says nothing is taken for what it computes.

#include "dsl/layers/linear.h"
#include "dsl/tensor.h"
#include "tests/support/kernels.h"

namespace cryolite::test {

namespace {

Var i("i"), r("r");

Func square(const Array &x) {
    Func y("y");
    y(i, r) = x(i, r) * x(i, r) + 1;
    return y;
}
Func share_of_row(const Array &x) {
    Func y("y"), total("total");
    RDom k(0, x.extent(0), "k");
    total(r) += x(k, r) * x(k, r);
    y(i, r) = x(i, r) / (1 + total(r));
    return y;
}
Func share_of_column(const Array &x) {
    Func y("y"), total("total");
    RDom k(0, x.extent(1), "k");
    total(i) += x(i, k) * x(i, k);
    y(i, r) = x(i, r) / (1 + total(i));
    return y;
}
Func mirrored(const Array &x) {
    Func y("y");
    y(i, r) = x(x.extent(0) - 1 - i, r);
    return y;
}
Func row_before(const Array &x) {
    Func y("y");
    y(i, r) = x(i, max(r - 1, 0));
    return y;
}
/// An element of its own, in other words.
Func shifted_twice(const Array &x) {
    Func shifted("shifted"), y("y");
    shifted(i, r) = x(i - 1, r);
    y(i, r) = sin(shifted(i + 1, r));
    return y;
}

/// Computes one of these, and says this of it.
struct Says : Layer {
    using Layer::Layer;
    static inline Func (*made)(const Array &) = nullptr;
    static inline Nature said = Nature::anchor;
    Nature nature() const override { return said; }
    Func forward(Array x) override { return made(x); }
};

struct Between : Classifier {
    Linear up{"up", 13, 37}, head{"head", 37, classes};
    Says layer{"layer"};
    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(layer(up(x))); }
};

/// One whose further input is a mask, given to the model, or what another layer makes, at places that are not its own.
struct Masked : Layer {
    using Layer::Layer;
    Nature nature() const override { return Nature::pointwise; }
    using Layer::shape;
    Shape shape(const std::vector<Shape> &x) const override { return x.at(0); }
    int input_rank(int k) const override { return k == 0 ? 2 : 1; }
    bool differentiates(int k) const override { return k == 0; }
    Func forward(const std::vector<Array> &in) override {
        Func y("y");
        y(i, r) = in[0](i, r) * in[1](r % 3);
        return y;
    }
};
template <bool given> struct Behind : Classifier {
    Linear up{"up", 13, 37}, head{"head", 37, classes};
    Masked masked{"masked"};
    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override {
        Graph &g = x.graph();
        const Tensor mask = given ? g.constant("mask", {3}, {1, 0, 1}) : reshape(slice(x, 0, 0, 1), {5});
        return head(g.call(masked, {up(x), mask}));
    }
};

/// A norm with gains and biases, and a pointwise layer with both, which say nothing.
struct Norm : Layer {
    Parameter g{this, "g", {37}, ones}, b{this, "b", {37}, zeros};
    using Layer::Layer;
    Func forward(Array x) override {
        Func y("y"), total("total");
        RDom k(0, x.extent(0), "k");
        total(r) += x(k, r) * x(k, r);
        y(i, r) = x(i, r) * g(i) / sqrt(1 + total(r)) + b(i);
        return y;
    }
};
struct Bend : Norm {
    using Norm::Norm;
    Func forward(Array x) override {
        Func y("y");
        y(i, r) = sin(x(i, r) * g(i) + b(i));
        return y;
    }
};
struct Gains : Classifier {
    Linear up{"up", 13, 37}, head{"head", 37, classes};
    Norm norm{"norm"};
    Bend bend{"bend"};
    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(bend(norm(up(x)))); }
};

using Made = Compiled<Between>;

Made make(Func (*made)(const Array &), Nature said = Nature::anchor, const Made::Schedule &lines = {}) {
    Says::made = made, Says::said = said;
    return Made({{"batch", "5"}}, lines);
}
std::string said_of(Func (*made)(const Array &), Nature said) {
    return error_of([&] { make(made, said); });
}
Nature nature_of(const Made &c) {
    for (const ir::Layer &l : c.program.layers)
        if (l.path == "layer") return l.nature;
    fail("the model has no 'layer'");
}
template <typename M> std::string loops_of(const Compiled<M> &c, const std::string &entry, const std::string &op) {
    const CompileReport r = describe_kernels(c.program, c.machine, CompileOptions());
    return r.kernels[size_t(c.kernel(entry, op).index)].loops;
}

}  // namespace

TEST_CASE("natures: one that lies is refused, with the element that shows it and what to say") {
    CHECK(said_of(mirrored, Nature::pointwise) ==
          "[layer] Says: nature() says pointwise, but element (i, r) of its result reads 'up' at ((36 - i), r); return "
          "Nature::rowwise");
    CHECK(said_of(share_of_row, Nature::pointwise) ==
          "[layer] Says: nature() says pointwise, but element (i, r) of its result reads 'up' at (k$x, r); return "
          "Nature::rowwise");
    CHECK(said_of(row_before, Nature::rowwise) ==
          "[layer] Says: nature() says rowwise, but element (i, r) of its result reads 'up' at (i, max(r - 1, 0)); "
          "leave nature() out");
    CHECK(said_of(share_of_column, Nature::sum) ==
          "[layer] Says: nature() says pointwise, but element (i, r) of its result reads 'up' at (i, k$x); leave "
          "nature() out");
    CHECK(error_of([] {
              Compiled<Behind<false>>({{"batch", "5"}}, nullptr);
          }) == "[masked] Masked: nature() says pointwise, but element (i, r) of its result reads 'reshape' at ((r % "
                "3)); leave "
                "nature() out");
}

TEST_CASE("natures: what holds is accepted") {
    CHECK(said_of(square, Nature::pointwise) == "");
    CHECK(said_of(square, Nature::rowwise) == "");
    CHECK(said_of(shifted_twice, Nature::pointwise) == "");
    CHECK(said_of(share_of_row, Nature::rowwise) == "");
    CHECK(error_of([] { Compiled<Behind<true>>({{"batch", "5"}}, nullptr); }) == "");
}

TEST_CASE(
    "natures: a pointwise layer that says nothing has the loops of such, and shares the kernel of its neighbour") {
    {
        const Made c = make(square);
        CHECK(nature_of(c) == Nature::pointwise);
        CHECK(loops_of(c, "forward", "layer") == "pointwise");
        CHECK(loops_of(c, "step", "d(up)") == "pointwise");
    }
    const Made c = make(square, Nature::anchor, [](Between &m, Step &s) {
        s(m.layer).compute_with(m.up);
        s(d(m.layer)).compute_at(d(m.up));
    });
    CHECK(c.kernel("forward", "layer") == c.kernel("forward", "up"));
    CHECK(c.kernel("step", "d(layer)") == c.kernel("step", "d(up)"));
    check_kernels(c);
}

TEST_CASE("natures: one that normalises rows has their loops, forward and back") {
    const Made c = make(share_of_row);
    CHECK(nature_of(c) == Nature::rowwise);
    CHECK(loops_of(c, "forward", "layer") == "rowwise");
    CHECK(loops_of(c, "step", "d(up)") == "rowwise");
    check_kernels(c);
}

TEST_CASE("natures: gradients of gains and biases have loops of sums over rows, also where they are accumulated") {
    for (bool accumulate : {false, true}) {
        const Compiled<Gains> c({{"batch", "21"}}, nullptr, {.accumulate = accumulate});
        for (const char *gain : {"d(norm.g)", "d(norm.b)", "d(bend.g)", "d(bend.b)"}) {
            CAPTURE(gain);
            CHECK(loops_of(c, "step", gain) == "sum_normalised_rows");
        }
        check_kernels(c);
    }
}

TEST_CASE("natures: what needs more than its row is taken for nothing") {
    const Made c = make(share_of_column);
    CHECK(nature_of(c) == Nature::anchor);
    CHECK(loops_of(c, "forward", "layer") != "rowwise");
}

TEST_CASE("natures: loops of one's own stay") {
    const Made c = make(square, Nature::anchor, [](Between &, Step &s) {
        s.loops<Says>(Form::forward, [](Group &g, const Machine &) { g.out.parallel(g.out.args()[1]); });
    });
    CHECK(nature_of(c) == Nature::anchor);
    CHECK(loops_of(c, "forward", "layer") == "Says");
}

}  // namespace cryolite::test
