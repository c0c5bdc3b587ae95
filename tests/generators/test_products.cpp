// A layer that computes y = W x + b has Linear's kernels, whoever wrote it; one that does not has not.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "dsl/tensor.h"
#include "tests/support/kernels.h"

namespace cryolite::test {

namespace {

constexpr int wide = 37, narrow = 13;
Var o("o"), r("r");

/// As the library's, in other words; parameters have names of their own.
struct Plain : Layer {
    const int in, out;
    Parameter kernel, shift;
    Plain(std::string path, int in, int out)
        : Layer(std::move(path)), in(in),
          out(out), kernel{this, "kernel", {out, in}, normal(0.02)}, shift{this, "shift", {out}, zeros} {}
    Shape shape(const Shape &x) const override { return x.with(0, out); }
    Func forward(Array x) override {
        Func f("f");
        RDom i(0, in, "i");
        f(o, r) = shift(o);
        f(o, r) += kernel(o, i) * x(i, r);
        return f;
    }
};
/// The bias comes last, through Funcs that only show others.
struct Late : Plain {
    using Plain::Plain;
    Func forward(Array x) override {
        Func seen("seen"), sum("sum"), y("y");
        Var a("a"), b("b");
        RDom i(0, in, "i");
        seen(b, a) = x(a, b);
        sum(r, o) += seen(r, i) * kernel(o, i);
        y(o, r) = sum(r, o) + shift(o);
        return y;
    }
};
/// With its gradient, written.
struct Written : Plain {
    using Plain::Plain;
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Var i("i");
        RDom n(0, out, "n"), m(0, x.extent(1), "m");
        d(x)(i, r) += dy(n, r) * kernel(n, i);
        d(kernel)(o, i) += x(i, m) * dy(o, m);
        d(shift)(o) += dy(o, m);
    }
};
/// Without a bias, the inputs innermost, as PyTorch has it.
struct Bare : Layer {
    const int in, out;
    Parameter W;
    Bare(std::string path, int in, int out)
        : Layer(std::move(path)), in(in), out(out), W{this, "weight", {in, out}, normal(0.02)} {}
    Shape shape(const Shape &x) const override { return x.with(0, out); }
    Func forward(Array x) override {
        Func f("f");
        RDom i(0, in, "i");
        f(o, r) += W(i, o) * x(i, r);
        return f;
    }
};
struct BareLinear : Linear {
    BareLinear(std::string path, int in, int out)
        : Linear(std::move(path), in, out, {.bias = false, .in_innermost = true}) {}
};
struct Renamed : Linear {
    using Linear::Linear;
};

/// What is none.
struct Squared : Plain {
    using Plain::Plain;
    Func forward(Array x) override {
        Func f("f");
        RDom i(0, in, "i");
        f(o, r) = shift(o);
        f(o, r) += kernel(o, i) * x(i, r) * x(i, r);
        return f;
    }
};
struct Partial : Plain {
    using Plain::Plain;
    Func forward(Array x) override {
        Func f("f");
        RDom i(0, in - 1, "i");
        f(o, r) = shift(o);
        f(o, r) += kernel(o, i) * x(i, r);
        return f;
    }
};
struct Reversed : Plain {
    using Plain::Plain;
    Func forward(Array x) override {
        Func f("f");
        RDom i(0, in, "i");
        f(o, r) = shift(o);
        f(o, r) += kernel(o, i) * x(in - 1 - i, r);
        return f;
    }
};
struct Relued : Plain {
    using Plain::Plain;
    Func forward(Array x) override {
        Func y("y"), f = Plain::forward(x);
        y(o, r) = max(f(o, r), 0);
        return y;
    }
};
struct Halved : Written {
    using Written::Written;
    void backward(const Call &call, Array dy) override {
        Func half("half");
        half(o, r) = dy(o, r) / 2;
        Written::backward(call, Array(half, dy.shape));
    }
};
struct Doubled : Linear {
    using Linear::Linear;
    Func forward(Array x) override {
        Func y("y"), f = Linear::forward(x);
        y(o, r) = 2 * f(o, r);
        return y;
    }
};

/// A matrix of its own for each of four groups of channels: f(o, h, r) += W(i, o, h) x(i, h, r).
struct ByHead : Layer {
    static constexpr int heads = 4;
    const int in, out;
    Parameter W, b;
    ByHead(std::string path, int in, int out)
        : Layer(std::move(path)), in(in),
          out(out), W{this, "weight", {in, out, heads}, normal(0.1)}, b{this, "bias", {out, heads}, zeros} {}
    int rank() const override { return 3; }
    Shape shape(const Shape &x) const override { return x.with(0, out); }
    Func forward(Array x) override {
        Func f("f");
        Var h("h");
        RDom i(0, in, "i");
        f(o, h, r) = b(o, h);
        f(o, h, r) += W(i, o, h) * x(i, h, r);
        return f;
    }
};
/// Of two inputs: scores(i, j, n) = sum over c of x(c, i, n) y(c, j, n).
struct Scores : Layer2 {
    using Layer2::Layer2;
    int rank() const override { return 3; }
    Shape shape(const std::vector<Shape> &x) const override { return x[0].with(0, x[0][1]); }
    Func forward(Array x, Array y) override {
        Func s("s");
        Var i("i"), j("j"), n("n");
        RDom c(0, x.extent(0), "c");
        s(i, j, n) += x(c, i, n) * y(c, j, n);
        return s;
    }
};
struct Heads : Classifier {
    Linear up{"up", narrow, 4 * 9}, head{"head", 4 * 4, classes};
    ByHead by_head{"by_head", 9, 11};
    Scores scores{"scores"};
    Shape features() const override { return {narrow}; }
    Tensor forward(Tensor x) override {
        const Tensor y = by_head(reshape(up(x), {9, 4, batch}));
        return head(reshape(scores(y, y + 1.0), {16, batch}));
    }
};

template <typename Product> struct Net : Classifier {
    Product up{"up", narrow, wide}, down{"down", wide, classes};
    Relu relu{"relu"};
    Shape features() const override { return {narrow}; }
    Tensor forward(Tensor x) override { return down(relu(up(x))); }
};
template <typename Product> using Made = Compiled<Net<Product>>;
const std::vector<std::pair<std::string, std::string>> arguments = {{"batch", "21"}, {"classes", "11"}};

template <typename M> std::string loops_of(const M &c, const std::string &entry, const std::string &op) {
    const CompileReport r = describe_kernels(c.program, c.machine, CompileOptions());
    return r.kernels[size_t(c.kernel(entry, op).index)].loops;
}
template <typename M> bool is_product(const M &c) {
    for (const ir::Layer &l : c.program.layers)
        if (l.path == "up") return l.product.has_value();
    fail("the model has no 'up'");
}
template <typename Product, typename Library> void check_equal(const std::string &kind) {
    CAPTURE(kind);
    const std::vector<std::string> expected = Made<Library>(arguments).keys();
    const Made<Product> c(arguments);
    CHECK(is_product(c));
    CHECK(c.keys() == expected);
    CHECK(loops_of(c, "forward", "up") == "product");
    CHECK(loops_of(c, "step", "d(relu)") == "product");
}
template <typename Product> void check_other(const std::string &kind) {
    CAPTURE(kind);
    const Made<Product> c(arguments);
    CHECK(!is_product(c));
    CHECK(loops_of(c, "forward", "up") != "product");
    check_kernels(c);
}

}  // namespace

TEST_CASE("products: a layer that computes one has the kernels of Linear, in whatever words, with a derived gradient "
          "or a written one") {
    check_equal<Plain, Linear>("Plain");
    check_equal<Late, Linear>("Late");
    check_equal<Written, Linear>("Written");
    check_equal<Renamed, Linear>("Renamed");
    check_equal<Bare, BareLinear>("Bare");
}

TEST_CASE("products: what computes another thing, or has another gradient, is none") {
    check_other<Squared>("Squared");
    check_other<Partial>("Partial");
    check_other<Reversed>("Reversed");
    check_other<Relued>("Relued");
    check_other<Halved>("Halved");
}

TEST_CASE("products: a product() that does not hold is refused") {
    CHECK(error_of([] { Made<Doubled> c(arguments); }) ==
          "[up] Doubled: product() says y = W x + b, but its result is no sum of W(o, i) x(i, r), plus b(o); let "
          "product() return nothing and factored() false");
}

TEST_CASE("products: lines name the layer that was written, and loops of its own stay") {
    {
        const Made<Plain> c(arguments, [](Net<Plain> &net, Step &s) { s(net.relu).compute_with(net.up); });
        CHECK(c.kernel("forward", "relu") == c.kernel("forward", "up"));
        check_kernels(c);
    }
    const Made<Plain> own(arguments, [](Net<Plain> &, Step &s) {
        s.loops<Plain>(Form::forward, [](Group &g, const Machine &) { g.out.parallel(g.out.args()[1]); });
    });
    CHECK(!is_product(own));
    CHECK(loops_of(own, "forward", "up") == "Plain");
}

TEST_CASE("products: parity of what was found with its unscheduled kernels, fused updates and clipping too") {
    check_kernels(Made<Plain>(arguments, {}, {.update = "backward"}));
    check_kernels(Made<Bare>(arguments, {}, {.clip = true, .update = "backward"}));
}

TEST_CASE("products: sums of products with heads or examples around them have loops of contractions, and their "
          "biases those of sums over rows") {
    const Compiled<Heads> c({{"batch", "21"}}, nullptr);
    for (auto [entry, op] : {std::pair<std::string, std::string>{"forward", "by_head"},
                             {"forward", "scores"},
                             {"step", "d(by_head.weight)"},
                             {"step", "d(by_head)"}}) {
        CAPTURE(op);
        CHECK(loops_of(c, entry, op) == "contraction");
    }
    check_kernels(c);
}

}  // namespace cryolite::test
