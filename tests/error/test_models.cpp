// Mistakes in a model or a layer: the message names the layer or the parameter.

#include <csignal>
#include <memory>
#include <vector>
#include <unistd.h>

#include "dsl/models/gpt.h"
#include "generators/checks/check.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Small : Classifier {
    Linear head{"head", 5, classes};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(x); }
};

struct NoColumns : Small {
    Shape features() const override { return {0}; }
};

struct Unused : Small {
    Linear spare{"spare", 5, 5};
};

struct Undifferentiated : Small {
    Embedding names{"names", 4, 5};
    Linear first{"first", 5, 5};
    Tensor forward(Tensor x) override {
        first(x);
        return head(x);
    }
    Tensor loss(Tensor y, Tensor targets) override {
        names(targets);
        return cross_entropy(y, targets);
    }
};

struct Twice : Small {
    Linear other{"head", 5, 5};
    Tensor forward(Tensor x) override { return head(other(x)); }
};

struct Mismatched : Small {
    Linear up{"up", 5, 6};
    Tensor forward(Tensor x) override { return head(up(x)); }
};

struct Local : Small {
    Tensor forward(Tensor x) override {
        Linear between{"between", 5, 5};
        return head(between(x));
    }
};

struct LocalOnHeap : Small {
    Tensor forward(Tensor x) override {
        const auto between = std::make_unique<Linear>("between", 5, 5);
        return head((*between)(x));
    }
};

/// Returns what its head should have read.
struct Headless : Small {
    Linear first{"first", 5, 6};
    Tensor forward(Tensor x) override { return first(x); }
};
struct HeadlessText : TextModel {
    GeneratorParam<int> width{"width", 8};
    Embedding token{"token", vocab, width};
    Relu relu{"relu"};
    Tensor forward(Tensor x) override { return relu(token(x)); }
};
struct VectorLoss : Small {
    Tensor loss(Tensor y, Tensor) override { return y; }
};

/// y = a x of as many channels as there are classes: forgets the gradient of a.
struct Forgetful : Layer {
    Parameter a{this, "gain", {10}, ones};
    using Layer::Layer;
    Func forward(Array x) override {
        Func y("y");
        Var c("c"), r("r");
        y(c, r) = a(c) * x(c, r);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Var c("c"), r("r");
        d(call.input())(c, r) = a(c) * dy(c, r);
    }
};
struct Forgets : Small {
    Forgetful scale{"scale"};
    Tensor forward(Tensor x) override { return scale(head(x)); }
    Shape features() const override { return {5}; }
};

/// Takes something for an input that is none.
struct Hungry : Small {
    Tensor forward(Tensor x) override { return head(x * x.graph().input("scale", x.shape(), Halide::Float(32))); }
};
struct TwoTargets : Small {
    Tensor loss(Tensor y, Tensor) override { return cross_entropy(y, targets(y.graph())); }
};

/// A layer that misbehaves while its kernel is built.
struct Misbehaving : Layer {
    std::function<void()> act;
    Misbehaving(std::string path, std::function<void()> act) : Layer(std::move(path)), act(std::move(act)) {}
    Func forward(Array x) override {
        act();
        Func y("y");
        y(Halide::_) = x(Halide::_);
        return y;
    }
    Nature nature() const override { return Nature::pointwise; }
};

/// Three dimensions where its rank says two.
struct WrongRank : Layer {
    using Layer::Layer;
    Func forward(Array x) override {
        Func y("y");
        Var a("a"), b("b"), c("c");
        y(a, b, c) = x(a, b);
        return y;
    }
};
struct HasWrongRank : Small {
    WrongRank odd{"odd"};
    Tensor forward(Tensor x) override { return head(odd(x)); }
};

/// 1 where x > 0, else 0, in one of several types; or two numbers.
struct Positive : Layer {
    const Halide::Type type;
    const bool two;
    Positive(std::string path, Halide::Type type, bool two) : Layer(std::move(path)), type(type), two(two) {}
    bool differentiates(int) const override { return false; }
    void backward(const Call &, Array) override {}
    Func forward(Array x) override {
        Func y("y");
        Var c("c"), r("r");
        const Expr value = cast(type, x(c, r) > 0);
        if (two)
            y(c, r) = Tuple(value, value);
        else
            y(c, r) = value;
        return y;
    }
};
template <int bits, int code, bool two> struct Typed : Small {
    Positive positive{"positive", Halide::Type(halide_type_code_t(code), bits, 1), two};
    Tensor forward(Tensor x) override { return head(x + positive(x)); }
};
/// A gradient of another type.
struct IntGradient : Small {
    struct Twofold : Layer {
        using Layer::Layer;
        Func forward(Array x) override {
            Func y("y");
            Var c("c"), r("r");
            y(c, r) = 2 * x(c, r);
            return y;
        }
        void backward(const Call &call, Array dy) override {
            Var c("c"), r("r");
            d(call.input())(c, r) = cast<int>(2 * dy(c, r));
        }
    } twofold{"twofold"};
    Linear first{"first", 5, 5};
    Tensor forward(Tensor x) override { return head(twofold(first(x))); }
};

/// Fewer rows than tokens.
struct SmallTable : TextModel {
    Embedding token{"token", 5, 8};
    Linear head{"head", 8, vocab};
    Tensor forward(Tensor x) override { return head(token(x)); }
};

/// A gradient that ends its compiler process.
struct Fatal : Layer {
    std::function<void()> act;
    explicit Fatal(std::function<void()> act) : Layer("fatal"), act(std::move(act)) {}
    Func forward(Array x) override {
        Func y("y");
        y(Halide::_) = x(Halide::_);
        return y;
    }
    void backward(const Call &, Array) override { act(); }
};

template <typename M>
std::string message(std::vector<std::pair<std::string, std::string>> arguments = {}, const StepOptions &options = {}) {
    return error_of([&] { Compiled<M> c(arguments, {}, options); });
}

std::string build_error(std::function<void()> act, int time_limit = 60) {
    struct Bad : Small {
        Misbehaving bad;
        explicit Bad(std::function<void()> act) : bad("bad", std::move(act)) {}
        Tensor forward(Tensor x) override { return bad(head(x)); }
    };
    return error_of([&] {
        Arguments::current() = {};
        Machine machine = Machine::of(test_target());
        Step step(machine);
        AdamW rule;
        Bad model(std::move(act));
        lower(
            {.model = model, .optimizer = rule, .schedule = step, .oracle = reads_by_building(machine, 1, time_limit)});
    });
}

}  // namespace

TEST_CASE("a parameter of a layer that the model never calls") {
    CHECK(message<Small>() == "");
    CHECK(
        message<Unused>() ==
        "[spare.weight] is never used: the model does not call its layer; call it, or remove it (layers are members of "
        "the model: forward() makes none)");
}

TEST_CASE("a parameter that the loss does not depend on") {
    std::string m = message<Undifferentiated>();
    CAPTURE(m);
    CHECK(m.find("has no gradient: the loss does not depend on it") != std::string::npos);
    CHECK(message<Undifferentiated>({}, {.clip = true}) == m);  // nor a norm
}

TEST_CASE("two parameters of one name") {
    CHECK(message<Twice>() == "two parameters are named head.weight: give their layers different paths");
}

TEST_CASE("more weights than a step can have code for") {
    std::vector<std::unique_ptr<Linear>> layers;
    const auto add_to = [&](size_t weights) {
        while (Parameter::living().size() < weights) layers.push_back(std::make_unique<Linear>("x", 1, 1));
    };
    CHECK(error_of([&] { add_to(50'000); }) == "");
    CHECK(error_of([&] { add_to(50'002); }) == "a model has at most 50000 tensors of weights: give it fewer layers");
}

TEST_CASE("shapes that do not fit") {
    CHECK(message<Mismatched>() == "[head] input has 6 channels, expected 5");
    CHECK(message<VectorLoss>() == "the model's loss has shape [10, 32], expected one number");
    CHECK(message<NoColumns>() == "the input 'features' has the shape [0, 32]: every extent must be positive");
    CHECK(message<Gpt>({{"width", "85"}, {"heads", "4"}}) == "[h.0.attn] width 85 is not divisible by 4 heads");
    CHECK(message<Gpt>({{"context", "9"}, {"positions", "8"}}) == "[wpe] context 9 is longer than the 8 positions");
}

TEST_CASE("results of another type than float32") {
    auto says = [](const std::string &m, const char *words) { return m.find(words) != m.npos; };
    CHECK(message<Typed<32, halide_type_float, false>>() == "");
    CHECK(says(message<Typed<64, halide_type_float, false>>(),
               "[positive] the result has the type float64, expected float32: write cast<float>(...)"));
    CHECK(says(message<Typed<1, halide_type_uint, false>>(), "[positive] the result has the type uint1"));
    CHECK(says(message<Typed<32, halide_type_int, false>>(), "[positive] the result has the type int32"));
    CHECK(says(message<Typed<32, halide_type_float, true>>(), "[positive] the result is a tuple of 2"));
    CHECK(says(message<IntGradient>(), "d(first)] the result has the type int32"));
}

TEST_CASE("a table that has no row for some tokens") {
    CHECK(message<SmallTable>({{"vocab", "5"}}) == "");
    CHECK(message<SmallTable>({{"vocab", "6"}}) ==
          "[token] has a table of 5 rows, but tokens are numbered 0 to 5: expected vocab, 6");
}

TEST_CASE("a layer that is gone when the step is built") {
    const std::string gone =
        "[between] is gone before the step is built, as a local variable of the function that calls "
        "it is: make it a member of the model";
    CHECK(message<Local>() == gone);
    CHECK(message<LocalOnHeap>() == gone);
}

TEST_CASE("an input that no run fills is named, with what to do") {
    const std::string advice = " which no run fills: runs fill 'features' and 'targets' alone; make it of these by a "
                               "layer, as Documents and PaddingMask do, or let it be Graph::constant(...)";
    CHECK(message<Hungry>() == "the model has an input 'scale' [5, 32]," + advice);
    CHECK(message<TwoTargets>() == "the model has an input 'targets' [32]," + advice);
}

TEST_CASE("a model that returns what its head should read is refused, where it has fewer scores than targets may be") {
    CHECK(message<HeadlessText>() ==
          "[relu] makes the scores that 'loss' reads, 8 for each row, but the vocabulary has 65 tokens (--vocab): "
          "forward() "
          "may have forgotten its head, such as head(x) of a Linear head{\"head\", width, vocab}, or "
          "token.transposed(x)");
    CHECK(
        message<HeadlessText>({{"width", "64"}}).starts_with("[relu] makes the scores that 'loss' reads, 64 for each"));
    CHECK(message<HeadlessText>({{"width", "80"}}) == "");  // a vocabulary may be padded
    CHECK(message<Headless>() == "[first] makes the scores that 'loss' reads, 6 for each row, but there are 10 classes "
                                 "(--classes): forward() may have forgotten its head, such as head(x) of a Linear "
                                 "head{\"head\", width, classes}");
    HeadlessText model;
    CHECK_ERROR(compiler::check_gradients(model), "forward() may have forgotten its head");
}

TEST_CASE("arguments of a program") {
    CHECK(message<Gpt>({{"width", "0"}}) == "--width is 0, expected a whole number from 1 to 16777216");
    CHECK(message<Gpt>({{"width", "-3"}}) == "--width is -3, expected a whole number from 1 to 16777216");
    CHECK(message<Gpt>({{"width", "many"}}) == "--width is 'many', expected a whole number");
    CHECK(message<Gpt>({{"width", "64x"}}) == "--width is '64x', expected a whole number");
    CHECK(message<Gpt>({{"width", "99999999999"}}) == "--width is '99999999999', expected a whole number");
}

TEST_CASE("a backward that forgets a parameter, a forward of the wrong rank") {
    std::string m = message<Forgets>();
    CAPTURE(m);
    CHECK(m.find("[scale] Forgetful::backward defines no gradient of its parameter 'gain'") != std::string::npos);
    m = message<HasWrongRank>();
    CHECK(m.find("[odd] the result has 3 dimensions, but its layer says rank 2") != std::string::npos);
    Forgetful scale("scale");
    CHECK_ERROR(LayerTester(scale).input({10, 3}).check(), "[scale] Forgetful::backward defines no gradient of 'gain'");
}

TEST_CASE("a layer that crashes, aborts, ends the process, throws or loops") {
    CHECK(build_error([] {}) == "");
    auto names = [](const std::string &m, const std::string &part) {
        CAPTURE(m);
        CHECK(m.find("'bad'") != std::string::npos);
        CHECK(m.find(part) != std::string::npos);
    };
    names(build_error([] { raise(SIGSEGV); }), "the compiler process died (Segmentation fault)");
    names(build_error([] { std::abort(); }), "the compiler process died (Aborted)");
    names(build_error([] { _exit(0); }), "the compiler process ended without a result");
    names(build_error([] { throw std::runtime_error("my mistake"); }), "my mistake");
    names(build_error(
              [] {
                  for (;;) usleep(1000);
              },
              1),
          "it took longer than the limit of 1 s");
    names(build_error([] { Expr nothing, sum = nothing + 1; }),
          "undefined Expr");  // Halide's own words
}

TEST_CASE("a gradient whose compiler process dies: the layer is named, not the one whose output it belongs to") {
    auto names = [](std::function<void()> act, const std::string &how) {
        struct Bad : Small {
            Fatal fatal;
            explicit Bad(std::function<void()> act) : fatal(std::move(act)) {}
            Tensor forward(Tensor x) override { return fatal(head(x)); }
        };
        const std::string advice =
            "; it was making the gradient of [fatal] Fatal: if that is derived, write Fatal::backward";
        Arguments::current() = {};
        Machine machine = Machine::of(test_target());
        Step step(machine);
        AdamW rule;
        Bad model(act);
        CHECK(error_of([&] {
                  const ReadsOracle oracle = reads_by_building(machine, 1, 60);
                  lower({.model = model, .optimizer = rule, .schedule = step, .oracle = oracle});
              }) == "'d(head)': " + how + advice);
        CHECK(error_of([&] { LayerTester(model.fatal).input({5, 3}).check(); }) == how + advice);
    };
    names([] { raise(SIGSEGV); }, "the compiler process died (Segmentation fault): ");
    names([] { throw std::bad_alloc(); }, "the compiler process ran out of memory");
}

TEST_CASE("a wrong gradient is seen") {
    struct Wrong : Linear {
        using Linear::Linear;
        void backward(const Call &call, Array dy) override {
            Linear::backward(call, dy);
            Var o("o");
            d (*b)(o) += cast(dy.type(), 1e-3f);
        }
    };
    Wrong layer("wrong", 5, 3);
    for (const GradientError &e : LayerTester(layer).input({5, 7}).check())
        CHECK((e.differences > 1e-5) == (e.name == "d(bias)"));
}

}  // namespace cryolite::test
