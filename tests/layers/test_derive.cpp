// Gradients that nobody wrote: against finite differences in float64, or refused with what to write instead.

#include "dsl/layer.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

using Inputs = const std::vector<Array> &;
using Halide::maximum, Halide::max, Halide::min;

/// A layer of one expression, whose result has a fixed shape.
struct Small : Layer {
    using Algorithm = std::function<Func(Inputs)>;
    Shape result;
    Algorithm algorithm;

    Small(Shape result, Algorithm algorithm)
        : Layer("odd"), result(std::move(result)), algorithm(std::move(algorithm)) {}
    Shape shape(const std::vector<Shape> &) const override { return result; }
    int rank() const override { return 0; }
    Func forward(Inputs x) override { return algorithm(x); }
};

Var a("a"), b("b"), c("c"), d("d");

/// Inputs of these shapes.
LayerTester tester(Small &layer, const std::vector<Shape> &inputs) {
    LayerTester t(layer);
    for (const Shape &s : inputs) t.input(s);
    return t;
}
void check(const std::vector<Shape> &inputs, const Shape &result, Small::Algorithm algorithm) {
    Small layer(result, std::move(algorithm));
    check_gradients(tester(layer, inputs));
}
/// y(a, b), of an input of the same shape.
void check_elements(const std::function<Expr(Expr x)> &element) {
    check({{7, 3}}, {7, 3}, [&](Inputs x) {
        Func y("y");
        y(a, b) = element(x[0](a, b));
        return y;
    });
}
std::string refusal(const std::vector<Shape> &inputs, const Shape &result, Small::Algorithm algorithm) {
    Small layer(result, std::move(algorithm));
    return error_of([&] { tester(layer, inputs).check(); });
}

}  // namespace

TEST_CASE("derived: products over heads, quotients and remainders of channels") {
    constexpr int size = 5, heads = 3, context = 7, rows = 2;
    const Shape x{size * heads, context, rows};
    auto scores = [](Inputs in) {
        const Array &x = in[0];
        Func S("S");
        RDom k(0, size, "k");
        S(a, b, c, d) += x(c * size + k, b, d) * x(c * size + k, a, d);  // a: key, b: query, c: head
        return S;
    };
    check({x}, x, [&](Inputs in) {
        Func S = scores(in), y("y");
        RDom n(0, context, "n");
        y(a, b, c) += S(n, b, a / size, c);
        return y;
    });
    check({x}, x, [&](Inputs in) {
        Func g("g"), y("y");
        RDom k(0, size, "k");
        g(a, b, c) += in[0](a * size + k, b, c);
        y(a, b, c) = in[0](a, b, c) * g(a / size, b, c);
        return y;
    });
    check({x}, x, [&](Inputs in) {
        Func S = scores(in), y("y");
        RDom n(0, context, "n");
        y(a, b, c) += S(n, b, 0, c) * in[0](a, n, c);
        return y;
    });
    // By channel within a head, and head: neither alone says which channel it is.
    check({x}, x, [&](Inputs in) {
        Func split("split"), y("y");
        split(a, b, c, d) = in[0](b * size + a, c, d) * in[0](a, c, d);
        y(a, b, c) = split(a % size, a / size, b, c);
        return y;
    });
    check({x}, {size, context, rows}, [&](Inputs in) {
        Func folded("folded"), y("y");
        RDom k(0, size * heads, "k");
        folded(a, b, c) = sin(in[0](a, b, c));
        y(a, b, c) += folded((a + k) % (size * heads), b, c) * in[0](k, b, c);
        return y;
    });
}

namespace {

/// Attention over heads, its softmax shifted by `shift` of the scores.
Small attention(const std::function<Expr(Func scores, int context)> &shift) {
    constexpr int size = 3, heads = 2, context = 5;
    return Small({size * heads, context, 2}, [=](Inputs in) {
        const Array &q = in[0], &k = in[1], &v = in[2];
        Var t("t"), s("s"), h("h"), j("j");
        Func S("S"), w("w"), total("total"), mixed("mixed"), y("y");
        RDom e(0, size, "e"), n(0, context, "n");
        S(j, t, h, s) += q(h * size + e, t, s) * k(h * size + e, j, s);
        Func top("top");
        top(t, h, s) = shift(S, context);
        w(j, t, h, s) = exp(S(j, t, h, s) - top(t, h, s));
        total(t, h, s) += w(n, t, h, s);
        mixed(c, t, s) += w(n, t, c / size, s) * v(c, n, s);
        y(c, t, s) = mixed(c, t, s) / total(t, c / size, s);
        return y;
    });
}
const std::vector<Shape> of_attention(3, Shape{6, 5, 2});

}  // namespace

TEST_CASE("derived: attention, its softmax shifted or not") {
    Var t("t"), s("s"), h("h");
    Small plain = attention([](Func S, int) { return cast(S.type(), 0); });
    check_gradients(tester(plain, of_attention));
    Small stable = attention([=](Func S, int context) {
        RDom n(0, context, "n");
        return stop_gradient(maximum(S(n, t, h, s)));
    });
    check_gradients(tester(stable, of_attention));
    Small by_update = attention([=](Func S, int context) {
        RDom n(0, context, "n");
        Func most("most");
        most(t, h, s) = S.type().min();
        most(t, h, s) = max(most(t, h, s), S(n, t, h, s));
        return stop_gradient(most)(t, h, s);
    });
    check_gradients(tester(by_update, of_attention));
    CHECK(output_of(tester(stable, of_attention))[7] == doctest::Approx(output_of(tester(plain, of_attention))[7]));
}

TEST_CASE("derived: a maximum is refused where it is no constant") {
    Var t("t"), s("s"), h("h");
    Small layer = attention([=](Func S, int context) {
        RDom n(0, context, "n");
        return maximum(S(n, t, h, s));
    });
    const std::string m = error_of([&] { tester(layer, of_attention).check(); });
    CHECK(m ==
          "[odd] Small: its gradient cannot be derived: Func 'maximum' keeps the greatest or least of what it meets, "
          "`max(maximum(t, h, s), S(n.x, t, h, s))`: where it only shifts or scales other values (the row maximum of a "
          "softmax), read it as stop_gradient(maximum(...)); or write Small::backward");
}

TEST_CASE("derived: diagonals, strides, edges, constants and rows chosen by data") {
    check({{5, 5}}, {5}, [](Inputs x) {
        Func y("y");
        y(a) = x[0](a, a) * x[0](0, a);
        return y;
    });
    check({{5, 5}, {5, 3}}, {3}, [](Inputs x) {
        Func y("y");
        RDom r(0, 5, "r");
        y(a) += x[0](r, r) * x[1](r, a);
        return y;
    });
    check({{11, 3}}, {4, 3}, [](Inputs x) {  // two of three, from the end
        Func y("y");
        y(a, b) = x[0](10 - 3 * a, b) * x[0](3 * a, b);
        return y;
    });
    check({{12, 3}}, {4, 3}, [](Inputs x) {
        Func y("y");
        RDom k(0, 3, "k");
        y(a, b) += x[0](3 * a + k, b) * x[0](2 * a + k, 2 - b);
        return y;
    });
    check({{7, 5}, {3, 3}}, {7, 5}, [](Inputs x) {
        Func y("y"),
            outside = Halide::BoundaryConditions::constant_exterior(x[0], cast(x[0].type(), 0), {{0, 7}, {0, 5}}),
            edge = Halide::BoundaryConditions::repeat_edge(x[0], {{0, 7}, {0, 5}});
        RDom k(0, 3, 0, 3, "k");
        y(a, b) += (outside(a + k.x - 1, b + k.y - 1) + edge(a, b + k.y - 1)) * x[1](k.x, k.y);
        return y;
    });
    Small rows({5, 4}, [](Inputs x) {
        Func y("y"), twice("twice");
        twice(a, b) = x[1](a, b) * x[1](a, b);
        y(a, b) = twice(a, clamp(x[0](b), 0, 6)) + x[1](a, clamp(x[0](b), 0, 5));
        return y;
    });
    check_gradients(LayerTester(rows).ids({4}, 7, {3, 0, 3, 6}).input({5, 7}));
    check({{6, 3}}, {1}, [](Inputs x) {  // a loss
        Func total("total"), y("y");
        RDom r(0, 6, 0, 3, "r");
        total() += x[0](r.x, r.y) * x[0](r.x, r.y);
        y(a) = sqrt(total());
        return y;
    });
    check({{6}}, {6}, [](Inputs x) { return Func(x[0]); });
}

TEST_CASE("derived: conditions") {
    check({{7, 7}}, {7, 3}, [](Inputs x) {  // the elements up to the diagonal
        Func y("y");
        RDom r(0, 7, "r");
        r.where(r <= a);
        y(a, b) += x[0](r, a) * x[0](b, r);
        return y;
    });
    check({{4, 3}}, {7, 3}, [](Inputs x) {  // elements past the last are not there: the condition leaves them out
        Func y("y");
        RDom r(0, 7, "r");
        r.where(r < 4);
        y(a, b) += x[0](r, b) * x[0](r, b);
        return y;
    });
}

TEST_CASE("derived: parts, Tuples and changes in place") {
    check({{6, 3}}, {6, 3}, [](Inputs x) {
        Func padded("padded"), y("y");
        RDom r(0, 4, "r");
        padded(a, b) = x[0](a, b);
        padded(r + 1, b) = x[0](r, b) * x[0](r + 2, b);
        padded(5, b) = sin(x[0](0, b));
        y(a, b) = padded(a, b) * x[0](a, 2 - b);
        return y;
    });
    check({{6, 3}}, {3}, [](Inputs x) {
        Func both("both"), y("y");
        RDom r(0, 6, "r");
        both(b) = Tuple(cast(x[0].type(), 0), cast(x[0].type(), 1));
        both(b) = Tuple(both(b)[0] + x[0](r, b), both(b)[1] + x[0](r, b) * x[0](r, 0));
        y(b) = both(b)[1] / exp(both(b)[0]);
        return y;
    });
    check({{6, 3}}, {3}, [](Inputs x) {
        Func mean("mean");
        RDom r(0, 6, "r");
        mean(b) = x[0](0, b);
        mean(b) += x[0](r, b) * x[0](r, b);
        mean(b) = mean(b) / 6;
        mean(b) += x[0](1, b);
        return mean;
    });
}

TEST_CASE("derived: scans") {
    check({{3, 6}, {3, 3}, {3}}, {3, 6}, [](Inputs x) {  // a recurrent layer: h(t) = tanh(W h(t - 1) + x(t))
        Func h("h"), y("y");
        RDom r(0, 3, 0, 6, "r");
        h(a, b) = select(b == 0, x[2](a), cast(x[0].type(), 0));
        RDom t(0, 6, "t");
        h(a, t + 1) = tanh(h(a, t) * x[1](a, 0) + x[0](a, t));
        y(a, b) = h(a, b + 1);
        return y;
    });
    check({{3, 6}, {3, 3}}, {3, 6}, [](Inputs x) {  // h(i, t) = x(i, t - 1) + sum of W(k, i) sin(h(k, t - 1))
        Func h("h"), y("y");
        RDom r(0, 3, 0, 3, 0, 6, "r");
        h(a, b) = x[0](a, max(b - 1, 0));
        h(r.y, r.z + 1) += x[1](r.x, r.y) * sin(h(r.x, r.z));
        y(a, b) = h(a, b + 1);
        return y;
    });
}

TEST_CASE("derived: functions") {
    auto positive = [](Expr x) { return abs(x) + cast(x.type(), 0.25f); };
    check_elements([&](Expr x) { return exp(x) + log(positive(x)) * sqrt(positive(x)); });
    check_elements([&](Expr x) { return sin(x) * cos(x) + tan(x) / (2 + tanh(x)) - sinh(x) * cosh(x); });
    check_elements([&](Expr x) { return asin(x / 2) * acos(x / 2) + atan(x) * atan2(x, positive(x)); });
    check_elements([&](Expr x) { return asinh(x) + acosh(positive(x) + 1) * atanh(x / 2); });
    check_elements([&](Expr x) { return pow(positive(x), x) + pow(x, 3) + x % cast(x.type(), 0.3f); });
    check_elements([&](Expr x) {
        return max(x, x * x) + min(x, 0) - clamp(x, cast(x.type(), -0.5f), cast(x.type(), 0.5f)) + abs(x);
    });
    check_elements([&](Expr x) { return lerp(x, x * x, sin(x)) + select(x > 0, sqrt(x), 3 * x) + floor(x) * x; });
    check_elements([&](Expr x) {
        return Halide::mux(a % 3, {x, x * x, sin(x)}) + Halide::strict_float(x * x - x / (x + 5));
    });
    check_elements([&](Expr x) { return cast<double>(cast<float>(cast<int>(x * 3))) * x; });
    // The root's slope is infinite where it is not taken.
    check({{5}}, {5}, [](Inputs x) {
        Func y("y");
        y(a) = select(a == 2, sqrt(x[0](a) - x[0](a)), x[0](a)) * x[0](a);
        return y;
    });
}

TEST_CASE("derived: what is refused names the Func and the expression") {
    auto scalar = [](const std::function<Func(Array)> &f) {
        return refusal({{6, 3}}, {3}, [=](Inputs x) { return f(x[0]); });
    };
    auto contains = [](const std::string &message, const std::string &part) {
        CAPTURE(message);
        CHECK(message.find("[odd] Small: its gradient cannot be derived: ") == 0);
        CHECK(message.find(part) != std::string::npos);
    };
    contains(scalar([](Array x) {
                 Func product("product");
                 RDom r(0, 6, "r");
                 product(b) = cast(x.type(), 1);
                 product(b) *= x(r, b);
                 return product;
             }),
             "Func 'product' is updated by `(product(b)*x0(r.x, b))`, whose slope depends on values that the update "
             "replaces: give "
             "the new values a Func of their own; or write Small::backward");
    contains(scalar([](Array x) {
                 Func y("y");
                 y(b) = cast<double>(Halide::fast_log(cast<float>(x(0, b))));
                 return y;
             }),
             "takes a value by its bits, of which there is no derivative (fast_exp, fast_log");
    contains(error_of([] {
                 in_child([] {
                     Small rows({5, 4}, [](Inputs x) {
                         Func square("square"), y("y");
                         square(a, b) = x[1](a, b) * x[1](a, b);
                         y(a, b) = square(a, x[0](b));
                         return y;
                     });
                     Func ids("ids"), x("x"), dy("dy");
                     ids(b) = 0;
                     x(a, b) = cast<double>(a);
                     dy(a, b) = cast<double>(b);
                     Call call{{Array(ids, {4}), Array(x, {5, 7})}, {}};
                     rows.gradient(call, Array(dy, {5, 4}));
                     return std::string();
                 });
             }),
             "Func 'y' reads `square(a, ids(b))`, whose index ids(b) has no bounds that are known: clamp it");
    contains(scalar([](Array x) {
                 Func y("y");
                 RDom r(0, 6, "r");
                 y(b) = cast(x.type(), 0);
                 y(r / 2) = x(r, 0);
                 return y;
             }),
             "Func 'y' is replaced in part at `y(r.x/2)`, and it is not known that these places are a box in which "
             "each is written once");
    contains(scalar([](Array x) {
                 Func y("y");
                 RDom r(0, 3, "r");
                 y(b) = x(0, b);
                 y(r) = y(2 - r) * x(r, 0);
                 return y;
             }),
             "Func 'y' is updated by `(y(2 - r.x)*x0(r.x, 0))`, which reads other elements of the Func: only a scan");
    contains(scalar([](Array x) {
                 Func y("y");
                 y(b) = Halide::Internal::Call::make(x.type(), "cbrt", {Expr(x(0, b))},
                                                     Halide::Internal::Call::PureExtern);
                 return y;
             }),
             "`cbrt(x0(0, b))`: there is no rule for the derivative of cbrt");
    // What is read through stop_gradient is no part of the gradient, so that none of this refuses it.
    Small layer({3}, [](Inputs x) {
        Func product("product"), y("y");
        RDom r(0, 6, "r");
        product(b) = cast(x[0].type(), 1);
        product(b) *= cast(x[0].type(), cast<int>(x[0](r, b)) + 2);
        y(b) = stop_gradient(product)(b) * x[0](0, b) +
               x[0](1, b) * stop_gradient(cast(x[0].type(), cast<int>(x[0](2, b) * 3)));
        return y;
    });
    check_gradients(tester(layer, {{6, 3}}));
}

TEST_CASE("derived: what is written stays, the rest is derived") {
    struct Half : Layer {
        Parameter w{this, "gain", {5}, ones};
        using Layer::Layer;
        Func forward(Array x) override {
            Func top("top"), y("y");
            RDom r(0, 5, "r");
            top(b) = maximum(r, x(r, b));
            y(a, b) = w(a) * top(b);
            return y;
        }
        void backward(const Call &call, Array dy) override {
            const Array &x = call.input();
            Func top("top"), mixed("mixed");
            RDom r(0, 5, "r");
            top(b) = maximum(r, x(r, b));
            mixed(b) += w(r) * dy(r, b);
            d(x)(a, b) = select(x(a, b) == top(b), mixed(b), cast(x.type(), 0));
            derive(call, dy);
        }
    };
    Half layer("half");
    check_gradients(LayerTester(layer).input({5, 3}));
}

}  // namespace cryolite::test
