// What the pass `simplify` takes out of a model, and what looks alike and stays.

#include "dsl/layers/activation.h"
#include "dsl/layers/batch_norm.h"
#include "dsl/layers/dropout.h"
#include "dsl/layers/linear.h"
#include "dsl/optimizers/adamw.h"
#include "dsl/tensor.h"
#include "generators/driver/oracles/constant_oracle.h"
#include "generators/ir/verify.h"
#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"
#include "tests/support/reads.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Net : Classifier {
    using Write = std::function<Tensor(Net &, Tensor)>;
    static inline Write write;

    Linear up{"up", 6, 6}, other{"other", 6, 6}, head{"head", 6, classes};
    Relu relu{"relu"}, relu2{"relu2"};
    Dropout drop{"drop", 0.5};
    BatchNorm norm{"norm", 6};
    Shape features() const override { return {6}; }
    Tensor forward(Tensor x) override { return head(write(*this, x)); }
};

/// The model after the trace and the pass. Functions of it are called once: Funcs are built in a child alone.
class Simplified {
public:
    explicit Simplified(const Net::Write &write, bool folds = true) {
        Arguments::current() = {{{"batch", "4"}, {"classes", "3"}}, {}};
        Net::write = write;
        model = std::make_unique<Net>();
        const Context cx{.model = *model,
                         .optimizer = rule,
                         .schedule = step,
                         .oracle = reads_of_kinds,
                         .constants = folds ? constants_by_running(60) : ConstantOracle()};
        p = trace(cx);
        traced = p.calls.size();
        simplify(p, cx);
        ir::verify(p, "simplify");
    }
    /// The kinds of its calls before the head: "Linear Relu Add".
    std::string kinds() const {
        std::string text;
        for (CallId c : p.calls.ids())
            if (const std::string &kind = p.layer(c).kind; p.layer(c).path != "head" && p.layer(c).path != "loss")
                text += (text.empty() ? "" : " ") + kind;
        return text;
    }
    /// The elements of the constant that the call of this kind reads.
    std::vector<float> constant_of(const std::string &kind) const {
        for (CallId c : p.calls.ids())
            if (p.layer(c).kind == kind)
                for (ValueId v : p.calls[c].inputs)
                    if (const auto &elements = p.graph.values()[size_t(v.index)].constant; !elements.empty())
                        return elements;
        return {};
    }

    Machine machine = Machine::of(test_target());
    Step step{machine};
    AdamW rule;
    std::unique_ptr<Net> model;
    StepProgram p;
    int traced = 0;
};

std::string kinds(const Net::Write &write) { return Simplified(write).kinds(); }

Tensor numbers(const Tensor &x, std::vector<float> of) { return x.graph().constant("numbers", {int(of.size())}, of); }

}  // namespace

TEST_CASE("simplify: a layer that is called twice on one value is called once, with all that follows equally") {
    const Simplified s([](Net &n, Tensor x) { return n.relu(n.up(x)) * n.relu(n.up(x)); });
    CHECK(s.kinds() == "Linear Relu Multiply");
    CHECK(s.traced - s.p.calls.size() == 2);
    CHECK(kinds([](Net &n, Tensor x) { return (x * n.up(x)) + (x * n.up(x)); }) == "Linear Multiply Add");
}

TEST_CASE("simplify: layers of other parameters, on other values, or that only look alike are not merged") {
    CHECK(kinds([](Net &n, Tensor x) { return n.up(x) + n.other(x); }) == "Linear Linear Add");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(x) + n.up(n.up(x)); }) == "Linear Linear Add");
    // Two layers of the model's of one kind may differ in what the compiler does not see.
    CHECK(kinds([](Net &n, Tensor x) { return n.relu(x) + n.relu2(x); }) == "Relu Relu Add");
    CHECK(kinds([](Net &n, Tensor x) { return (n.up(x) - x) * (x - n.up(x)); }) == "Linear Subtract Subtract Multiply");
    CHECK(kinds([](Net &, Tensor x) { return (2.0 * x) * (3.0 * x); }) == "Times Times Multiply");
    CHECK(kinds([](Net &, Tensor x) { return (x + 1.0) * (x + 2.0); }) == "Plus Plus Multiply");
    CHECK(kinds([](Net &, Tensor x) {
              return concat({slice(x, 0, 0, 3), slice(x, 0, 3, 6)}, 0);
          }) == "Slice Slice Concat");
    CHECK(kinds([](Net &, Tensor x) { return concat({slice(x, 0, 0, 3), slice(x, 0, 0, 3)}, 0); }) == "Slice Concat");
}

TEST_CASE("simplify: what draws at random, or has a state, is called as often as it is written") {
    CHECK(kinds([](Net &n, Tensor x) { return n.drop(x) + n.drop(x); }) == "Dropout Dropout Add");
    CHECK(kinds([](Net &n, Tensor x) { return n.norm(x) + n.norm(x); }) ==
          "BatchNorm RescaledChannels BatchNorm RescaledChannels Add");
    CHECK(kinds([](Net &n, Tensor x) { return n.relu(n.drop(x)) + n.relu(n.drop(x)); }) ==
          "Dropout Relu Dropout Relu Add");
}

TEST_CASE("simplify: operators that do nothing, or undo each other, are gone") {
    CHECK(kinds([](Net &n, Tensor x) { return n.up(1.0 * x); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(slice(x, 0, 0, 6)); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(concat({x}, 0)); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(reshape(x, {6, 4})); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(reshape(reshape(x, {24}), {6, 4})); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(transpose(transpose(x))); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(permute(x, {0, 1})); }) == "Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(0.5 * (2.0 * x)); }) == "Linear");
    // One of each is left of two that do something together.
    CHECK(kinds([](Net &n, Tensor x) { return n.up(0.5 * (3.0 * x)); }) == "Times Linear");
    const Simplified cube([](Net &n, Tensor x) {
        const Tensor turned = permute(permute(reshape(x, {2, 3, 4}), {1, 2, 0}), {1, 2, 0});
        return n.up(reshape(permute(turned, {1, 2, 0}), {6, 4}));
    });
    CHECK(cube.kinds() == "Linear");
    CHECK(kinds([](Net &n, Tensor x) {
              return n.up(reshape(permute(permute(reshape(x, {2, 3, 4}), {1, 2, 0}), {1, 2, 0}), {6, 4}));
          }) == "Reshape Permute Reshape Linear");
}

TEST_CASE("simplify: operators that do something stay, and so does what others read") {
    CHECK(kinds([](Net &n, Tensor x) { return n.up(transpose(reshape(x, {4, 6}))); }) == "Reshape Permute Linear");
    CHECK(kinds([](Net &n, Tensor x) { return n.up(x + 0.0); }) == "Plus Linear");  // of -0 it makes 0
    CHECK(kinds([](Net &n, Tensor x) { return n.up(stop_gradient(x)); }) == "StopGradient Linear");
    // The first product has another reader, and is computed anyway.
    CHECK(kinds([](Net &, Tensor x) {
              const Tensor y = 3.0 * x;
              return y * (0.5 * y);
          }) == "Times Times Multiply");
    // Of the model's own layers only calls go.
    CHECK(kinds([](Net &n, Tensor x) { return n.relu(n.relu(x)); }) == "Relu Relu");
}

TEST_CASE("simplify: the results of a model stay, whatever they equal") {
    struct Result : Net {
        Tensor forward(Tensor x) override { return 1.0 * head(x); }
    };
    Arguments::current() = {{{"batch", "4"}, {"classes", "3"}}, {}};
    const Machine machine = Machine::of(test_target());
    Step step(machine);
    AdamW rule;
    Result model;
    const Context cx{.model = model, .optimizer = rule, .schedule = step, .oracle = reads_of_kinds};
    StepProgram p = trace(cx);
    simplify(p, cx);
    CHECK(p.layer(p.values[p.output].producer).kind == "Times");
}

TEST_CASE("simplify: what operators make of constants is a constant, and equal constants are one") {
    const Simplified s([](Net &, Tensor x) { return x * (2.0 * numbers(x, {1, 2, 3, 4, 5, 6}) + 0.5); });
    CHECK(s.kinds() == "Broadcast Multiply");  // larger than what it reads: it is made where it is used
    CHECK(s.constant_of("Broadcast") == std::vector<float>{2.5, 4.5, 6.5, 8.5, 10.5, 12.5});
    int constants = 0;
    for (const Graph::Value &v : s.p.graph.values()) constants += !v.constant.empty();
    CHECK(constants == 1);
}

TEST_CASE("simplify: constants are one where all of their bits are equal") {
    const auto of = [](std::vector<float> a, std::vector<float> b) {
        return kinds([&](Net &, Tensor x) { return (x + numbers(x, a)) * (x + numbers(x, b)); });
    };
    CHECK(of({1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}) == "Broadcast Add Multiply");
    CHECK(of({1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 7}) == "Broadcast Add Broadcast Add Multiply");
    CHECK(of({0, 2, 3, 4, 5, 6}, {-0.0f, 2, 3, 4, 5, 6}) == "Broadcast Add Broadcast Add Multiply");
}

TEST_CASE("simplify: the gradient of a call that is made once is that of all of its uses") {
    struct Pair : Classifier {
        Linear up{"up", 6, 6}, head{"head", 6, classes};
        Shape features() const override { return {6}; }
        Tensor forward(Tensor x) override {
            const Tensor a = up(x), b = up(x);
            return head(a * b);
        }
    };
    Compiled<Pair> c({{"batch", "4"}, {"classes", "3"}});
    int gradients = 0, adjoints = 0;
    for (OpId id : c.program.entries.at("step").ops) {
        gradients += c.program.ops[id].name == "d(up.weight)";
        adjoints += c.program.ops[id].name == "d(up)";
    }
    CHECK(gradients == 1);
    CHECK(adjoints == 2);  // of either factor, the second with the first added
}

}  // namespace cryolite::test
