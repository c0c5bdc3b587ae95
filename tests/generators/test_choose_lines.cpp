// s.automatic(): which lines are chosen, and what stays as it is.

#include <algorithm>

#include "dsl/layers/dropout.h"
#include "dsl/layers/linear.h"
#include "dsl/models/gpt.h"
#include "dsl/models/llama.h"
#include "dsl/models/vision.h"
#include "generators/ir/printer.h"
#include "generators/passes/moves/moves.h"
#include "schedules/lines.h"
#include "schedules/models/gpt.h"
#include "schedules/models/llama.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;
const Flags gpt = {{"layers", "2"},   {"heads", "2"}, {"width", "32"},
                   {"context", "32"}, {"batch", "2"}, {"vocab", "19"}};
const Flags llama = {{"layers", "1"},  {"heads", "2"},    {"kv-heads", "1"}, {"width", "32"},
                     {"hidden", "96"}, {"context", "32"}, {"batch", "2"},    {"vocab", "19"}};
const Flags resnet = {{"size", "8"}, {"width", "4"}, {"layers", "1"}, {"batch", "16"}, {"classes", "5"}};

/// The tutorial's model in short: a norm with loops of its own, and a gate, which says what it is.
struct RmsNorm : Layer {
    using Layer::Layer;
    Func forward(Array x) override {
        Var i("i"), r("r");
        RDom k(0, x.extent(0), "k");
        Func total("total"), y("y");
        total(r) += x(k, r) * x(k, r);
        y(i, r) = x(i, r) / sqrt(total(r) / x.extent(0) + 1e-5f);
        return y;
    }
};
struct Gate : Layer2 {
    using Layer2::Layer2;
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array x, Array y) override {
        Var i("i"), r("r");
        Func z("z");
        z(i, r) = x(i, r) * y(i, r) / (1 + exp(-y(i, r)));
        return z;
    }
};
struct Tutorial : Classifier {
    Linear first{"first", 64, 64}, up{"up", 64, 128}, open{"open", 64, 128}, down{"down", 128, 64},
        head{"head", 64, classes};
    RmsNorm norm{"norm"};
    Gate gate{"gate"};
    Shape features() const override { return {64}; }
    Tensor forward(Tensor x) override {
        x = first(x);
        const Tensor n = norm(x);
        return head(x + down(gate(up(n), open(n))));
    }
};

std::string where_legal(const std::vector<std::string> &lines) {
    std::string text;
    for (const std::string &line : lines) text += line + ".where_legal()\n";
    return text;
}

template <typename M> void choose(M &, Step &s) { s.automatic(); }

/// What is left of a model that is gone: one model exists at a time.
struct Made {
    std::vector<std::string> keys;  ///< of kernels, sorted
    std::string lines, text;        ///< of the schedule; after the passes
    int chosen = 0;
    bool all_where_legal = true;
};

template <typename M>
Made make(const Flags &flags, const typename Compiled<M>::Schedule &schedule, const StepOptions &options = {}) {
    const Compiled<M> c(flags, schedule, options);
    Made m{.keys = c.keys(), .lines = {}, .text = ir::lines_of(c.program), .chosen = 0};
    std::ranges::sort(m.keys);
    for (const auto &[stage, place] : c.step.placements) {
        m.lines += "s(" + stage.str() + ")" + place.line() + "\n";
        m.all_where_legal &= place.where_legal;
        m.chosen += place.saves > 0;
    }
    return m;
}

}  // namespace

TEST_CASE(
    "automatic lines: GPT has the kernels, Llama as many but for what is rematerialised, as by the lines by hand") {
    const Made by_hand = make<Gpt>(gpt, [](Gpt &net, Step &s) { schedule_gpt(net, s); });
    CHECK(make<Gpt>(gpt, choose<Gpt>).keys == by_hand.keys);
    CHECK(make<Gpt>(gpt, {}).keys != by_hand.keys);
    const Made llama_by_hand = make<Llama>(llama, [](Llama &net, Step &s) { schedule_llama(net, s); });
    const Made llama_chosen = make<Llama>(llama, choose<Llama>);  // into the other product before the gate
    CHECK(llama_chosen.keys.size() + 2 == llama_by_hand.keys.size());
    CHECK(llama_chosen.lines == where_legal({
                                    "s(d(model.layers.0.mlp.gate_proj)).compute_with(d(model.layers.0.mlp.act_fn))",
                                    "s(d(model.layers.0.mlp.act_fn)).compute_at(d(model.layers.0.mlp.up_proj))",
                                    "s(model.layers.0.mlp.act_fn).compute_with(model.layers.0.mlp.gate_proj)",
                                }));
}

TEST_CASE("automatic lines: a residual network, the same every time, and as text that can be pasted") {
    const Made chosen = make<Vision>(resnet, choose<Vision>);
    const std::string expected = where_legal({
        "s(d(relu)).compute_at(d(bn1.rescaled))",
        "s(d(layer1.0.relu1)).compute_at(d(layer1.0.bn1.rescaled))",
        "s(d(layer1.0.relu2)).compute_at(d(layer1.0.bn2.rescaled))",
        "s(layer1.0.relu2).compute_with(layer1.0.bn2.rescaled)",
        "s(layer1.0.relu1).compute_with(layer1.0.bn1.rescaled)",
        "s(relu).compute_with(bn1.rescaled)",
        "s(d(layer2.0.relu1)).compute_at(d(layer2.0.bn1.rescaled))",
        "s(d(layer2.0.relu2)).compute_at(d(layer2.0.downsample.1.rescaled))",
        "s(layer2.0.relu2).compute_with(layer2.0.bn2.rescaled)",
        "s(layer2.0.relu1).compute_with(layer2.0.bn1.rescaled)",
        "s(d(layer3.0.relu1)).compute_at(d(layer3.0.bn1.rescaled))",
        "s(d(layer3.0.relu2)).compute_at(d(layer3.0.downsample.1.rescaled))",
        "s(layer3.0.relu2).compute_with(layer3.0.bn2.rescaled)",
        "s(layer3.0.relu1).compute_with(layer3.0.bn1.rescaled)",
    });
    CHECK(chosen.lines == expected);
    CHECK(make<Vision>(resnet, choose<Vision>).lines == expected);
    CHECK(
        chosen.text.find("s(relu).compute_with(bn1.rescaled).where_legal();  // automatic: legal, by 'relu', saves ") !=
        std::string::npos);
    const Made pasted = make<Vision>(resnet, [&](Vision &net, Step &s) { add_lines(s, net, chosen.text, "pasted"); });
    CHECK(pasted.lines == expected);
    CHECK(pasted.keys == chosen.keys);
}

TEST_CASE("automatic lines: the tutorial's model") {
    const Made chosen = make<Tutorial>({{"batch", "32"}}, [](Tutorial &, Step &s) {
        s.loops<RmsNorm>(Form::forward, [](Group &g, const Machine &) { g.out.parallel(g.out.args()[1]); });
        s.automatic();
    });
    CHECK(chosen.lines == where_legal({
                              "s(d(up)).compute_with(d(gate))",
                              "s(d(gate)).compute_at(d(open))",
                              "s(gate).compute_with(up)",
                          }));
}

TEST_CASE("automatic lines: those of the program win, and a stage of its own stays alone") {
    const Compiled<Gpt> c(gpt, [](Gpt &net, Step &s) {
        s(net.blocks[0].gelu).compute_root();
        s.automatic();
    });
    CHECK(c.kernel("forward", "h.0.mlp.act") != c.kernel("forward", "h.0.mlp.c_fc"));
    CHECK(c.kernel("forward", "h.1.mlp.act") == c.kernel("forward", "h.1.mlp.c_fc"));
    CHECK(c.kernel("step", "d(h.0.mlp.act)") == c.kernel("step", "d(h.0.mlp.c_fc)"));
}

TEST_CASE("automatic lines: what a flag makes illegal is left out, not refused") {
    const Made plain = make<Gpt>(gpt, choose<Gpt>);
    CHECK(plain.chosen == 4);
    CHECK(plain.all_where_legal);
    CHECK(make<Gpt>(gpt, choose<Gpt>, {.freeze = {"w*", "h.0.*", "h.1.attn*", "h.1.ln*"}}).chosen == 3);
}

TEST_CASE("automatic lines: s.clear() forgets lines, and what was asked for") {
    const Machine machine = Machine::of(test_target());
    Arguments::current() = {gpt, {}};
    Gpt net;
    Step step(machine);
    CHECK(step.empty());
    schedule_gpt(net, step);
    CHECK_FALSE(step.empty());
    add_lines(step, net, "s.automatic(); s.budget(1GB); loops(h.0.mlp.c_fc, forward): rows=4; s.clear();", "text");
    CHECK(step.empty());
    CHECK_FALSE(step.chooses);
    add_lines(step, net, "s.automatic()", "text");
    CHECK(step.chooses);
    CHECK_ERROR(add_lines(step, net, "s.automatic(5)", "text"), "text:1:13: found '5', expected ')'");
}

TEST_CASE("moves: a prologue is one, and none that s.automatic() takes") {
    Compiled<Gpt> c(gpt);
    std::vector<std::string> epilogues, prologues;
    int64_t last = std::numeric_limits<int64_t>::max();
    for (const Move &m : fusions_of(c.program)) {
        (m.is_epilogue ? epilogues : prologues).push_back(text_of(m));
        CHECK(m.bytes > 0);
        CHECK(m.bytes <= last);
        last = m.bytes;
    }
    CHECK(std::ranges::count(epilogues, "s(h.0.mlp.act).compute_with(h.0.mlp.c_fc)") == 1);
    CHECK(std::ranges::count(epilogues, "s(d(h.0.mlp.act)).compute_at(d(h.0.mlp.c_fc))") == 1);
    CHECK(std::ranges::count(prologues, "s(h.0.mlp.act).compute_at(h.0.mlp.c_proj)") == 1);
}

}  // namespace cryolite::test
