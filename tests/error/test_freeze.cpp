// Frozen parameters: what is left of a step without them, and what is refused about them. Nothing is built.

#include "dsl/models/gpt.h"
#include "tests/support/reads.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Net : Classifier {
    Linear up{"up", 6, 48}, down{"down", 48, 6}, head{"head", 6, classes};
    Relu relu{"relu"};
    Shape features() const override { return {6}; }
    Tensor forward(Tensor x) override { return head(down(relu(up(x)))); }
};

/// The step of a model after all passes.
template <typename M = Net> class Lowered {
public:
    explicit Lowered(const StepOptions &options = {}, const std::function<void(M &, Step &)> &lines = {}) {
        Arguments::current() = {};
        const Machine machine = Machine::of(test_target());
        Step step(machine);
        M model;
        AdamW rule;
        if (lines) lines(model, step);
        p = lower({.model = model, .optimizer = rule, .schedule = step, .options = options, .oracle = reads_of_kinds});
    }
    StepProgram p;

    bool has(const std::string &op) const {
        return std::ranges::any_of(p.entries, [&](const auto &entry) {
            return std::ranges::any_of(entry.second.ops, [&](OpId id) { return p.ops[id].name == op; });
        });
    }
    bool keeps(const std::string &name, ir::Role role) const {
        return std::ranges::any_of(p.values, [&](const ir::Value &v) { return v.name == name && v.role == role; });
    }
};

using Lines = std::function<void(Net &, Step &)>;
std::string said(const StepOptions &options, const Lines &lines = {}) {
    return error_of([&] { Lowered<>(options, lines); });
}

}  // namespace

TEST_CASE("freeze: no gradient, update or state of a frozen parameter, nor an adjoint that only it needed") {
    const Lowered<> all, some({.clip = true, .freeze = {"up.*"}});
    for (const char *op : {"d(up.weight)", "d(up.bias)", "next(up.weight)", "d(up)", "d(relu)", "d(down.weight)"})
        CHECK(all.has(op));
    for (const char *op : {"d(up.weight)", "d(up.bias)", "next(up.weight)", "norm(up.weight)", "d(up)", "d(relu)"})
        CHECK(!some.has(op));
    for (const char *op : {"d(down.weight)", "d(down)", "next(down.weight)", "norm(down.weight)"}) CHECK(some.has(op));
    CHECK(some.keeps("up.weight", ir::Role::parameter));
    CHECK(!some.keeps("up.weight", ir::Role::gradient));
    CHECK(!some.keeps("up.weight.m", ir::Role::state));
    CHECK(some.keeps("down.weight", ir::Role::gradient));
    // AdamW has two states of 4 bytes: of 6 * 48 weights and 48 biases.
    CHECK(some.p.spared.state_bytes == 8 * (6 * 48 + 48));
    CHECK(some.p.spared.gradient_bytes == 4 * (6 * 48 + 48));
    CHECK(some.p.spared.flops > 0);
    CHECK(all.p.spared == ir::Spared{});
}

TEST_CASE("freeze: what lies below is trained through it") {
    const Lowered<> net({.freeze = {"down.*"}});
    CHECK(!net.has("d(down.weight)"));
    for (const char *op : {"d(relu)", "d(up)", "d(up.weight)", "next(up.weight)", "d(head.weight)"}) CHECK(net.has(op));
}

TEST_CASE("freeze: in the model, of a parameter, of a layer, and taken back") {
    const Lowered<> weight({}, [](Net &n, Step &) { n.up.W.freeze(); });
    CHECK(!weight.has("next(up.weight)"));
    CHECK(weight.has("next(up.bias)"));
    const Lowered<> layer({}, [](Net &n, Step &) { n.up.freeze(); });
    CHECK(!layer.has("next(up.weight)"));
    CHECK(!layer.has("next(up.bias)"));
    const Lowered<> back({}, [](Net &n, Step &) { n.up.freeze(), n.up.W.freeze(false); });
    CHECK(back.has("next(up.weight)"));
    CHECK(!back.has("next(up.bias)"));
}

TEST_CASE("freeze: workers sum and divide what is trained") {
    const Lowered<> net({.clip = true, .workers = 2, .freeze = {"up.*"}});
    CHECK(net.has("sum(d(down.weight))"));
    CHECK(!net.has("sum(d(up.weight))"));
    for (const ir::Parameter &w : net.p.parameters) CHECK(w.shards.empty() == !w.trained());
}

TEST_CASE("freeze: with accumulation, at forward, in blocks and tied") {
    for (const char *update : {"separate", "backward", "forward", "auto"})
        for (bool accumulate : {false, true}) {
            const Lowered<Gpt> net({.accumulate = accumulate,
                                    .update = update,
                                    .head_rows = 256,
                                    .freeze = {"wte.weight", "wpe.weight", "h.0.*"}});
            CHECK(!net.has("next(wte.weight)"));
            CHECK(!net.has("d(h.0.mlp.c_fc)"));
            CHECK(net.has("d(h.1.mlp.c_fc)"));
            CHECK(net.has("next(h.1.attn.c_attn.weight)"));
        }
}

TEST_CASE("freeze: a pattern that matches nothing is named, with the nearest names") {
    CHECK(said({.freeze = {"up.wieght"}}) == "--freeze up.wieght: no parameter of the model has a name like that; the "
                                             "nearest are up.weight, up.bias, down.weight");
    CHECK_ERROR(Lowered<Gpt>({.freeze = {"h.*.mpl.*"}}), "the nearest are h.0.mlp.c_fc.");
    CHECK_ERROR(Lowered<>({.freeze = {"down.*", ""}}), "--freeze : no parameter of the model");
}

TEST_CASE("freeze: something is left to train") {
    CHECK(said({.freeze = {"*"}}) == "all 6 parameters are frozen, and nothing is left to train: freeze fewer");
    CHECK(said({.freeze = {"*weight", "up.*", "down.*"}}) == "");
}

TEST_CASE("freeze: a line about the gradient or the update of a frozen parameter is refused") {
    CHECK(said({.freeze = {"up.*"}}, [](Net &n, Step &s) { s(d(n.up.W)).compute_at(next(n.up.W)); }) ==
          "s(d(up.weight)).compute_at(next(up.weight)) is refused: 'up.weight' is frozen (--freeze up.*), so it has no "
          "gradient and "
          "no update; remove the line, or train the parameter");
    CHECK_ERROR(Lowered<>({}, [](Net &n, Step &s) { n.up.freeze(), s(next(n.up.W)).compute_at(forward); }),
                "s(next(up.weight)).compute_at(forward) is refused: 'up.weight' is frozen (test_freeze.cpp:");
    CHECK(said({.freeze = {"up.*"}}, [](Net &n, Step &s) { s.layout(n.up.W, row_major()); }) == "");
    CHECK(said({.freeze = {"up.*"}}, [](Net &n, Step &s) { s(d(n.down.W)).compute_at(next(n.down.W)); }) == "");
}

TEST_CASE("freeze: a line about an adjoint that nobody needs asks for nothing") {
    const auto lines = [](Net &n, Step &s) { s(d(n.relu)).compute_at(d(n.up)), s(d(n.relu)).dialect(halide); };
    const Lowered<> net({.freeze = {"up.*"}}, lines);
    int excused = 0;
    for (const ir::Line &l : net.p.lines)
        if (l.how != ir::Line::freeze) excused += l.verdict.is == ir::Verdict::unneeded;
    CHECK(excused == 2);
    const Lowered<> whole({}, lines);
    for (const ir::Line &l : whole.p.lines) CHECK(l.verdict.is == ir::Verdict::legal);
}

TEST_CASE("freeze: a loss that does not depend on a frozen parameter is a mistake as without") {
    struct Loose : Net {
        Linear loose{"loose", 6, 6};
        Tensor forward(Tensor x) override { return loose(x), Net::forward(x); }
    };
    CHECK_ERROR(Lowered<Loose>(), "[loose.weight] has no gradient: the loss does not depend on it");
    CHECK_ERROR(Lowered<Loose>({.freeze = {"loose.*"}}),
                "[loose.weight] has no gradient: the loss does not depend on it");
}

}  // namespace cryolite::test
