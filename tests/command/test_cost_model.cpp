// What kernels take, measured or predicted, and what `explain --diff` makes of two steps.

#include "apps/cryolite/explain/explain_diff.h"

#include "apps/cryolite/session/session.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

constexpr Roof roof{.peak = 1, .bandwidth = 1};  // 1e9 of each a second

/// A plan of one entry; a kernel for each call.
struct Steps {
    Plan plan;
    Steps &call(const std::string &name, const std::string &symbol, const std::string &layer, double flops,
                int64_t bytes) {
        plan.kernels.push_back(
            {.symbol = symbol, .loops = "", .layer = layer, .form = "forward", .args = {}, .dialects = {}});
        PlanCall c;
        c.kernel = int(plan.kernels.size()) - 1, c.name = name, c.pass = "forward", c.flops = flops, c.bytes = bytes;
        plan.plans["forward"].push_back(c);
        return *this;
    }
};

CostModel::Measured known(const std::map<std::string, double> &times) {
    return [times](const std::string &key) {
        const auto at = times.find(key);
        return at == times.end() ? std::nullopt : std::optional(at->second);
    };
}

}  // namespace

TEST_CASE("cost model: a measured time, else the roofline and the share of it that the kernels most alike reach") {
    Steps s;
    s.call("h.0.up", "up", "Linear", 2e9, 0)
        .call("h.0.act", "act", "Gelu", 0, 1e9)
        .call("ln", "ln", "LayerNorm", 0, 3e9);
    const auto cost = [&](const CostModel &m, size_t i) { return m.cost(s.plan, s.plan.plans["forward"][i]); };
    const CostModel bare(roof);
    CHECK(cost(bare, 0).seconds == doctest::Approx(2));
    CHECK(cost(bare, 1).seconds == doctest::Approx(1));
    CHECK(!cost(bare, 0).measured);

    CostModel m(roof, known({{"up", 4}, {"ln", 4.5}}));
    m.learn(s.plan, step_calls(s.plan, 1));
    CHECK(cost(m, 0).seconds == 4);
    CHECK(cost(m, 0).measured);
    CHECK(cost(m, 1).seconds == doctest::Approx(1.5));  // as the other that memory bounds in this pass
    CHECK(!cost(m, 1).measured);
    Steps other;
    other.call("h.7.up", "up with act", "Linear", 3e9, 0).call("tail", "tail", "Linear", 1e9, 0);
    other.call("sum", "sum", "Sum", 1e9, 0);
    const auto of_other = [&](size_t i) { return m.cost(other.plan, other.plan.plans["forward"][i]).seconds; };
    CHECK(of_other(0) == doctest::Approx(6));  // half of the roofline, as the kernel of this name in another block
    CHECK(of_other(1) == doctest::Approx(2));  // as another of this layer and form
    CHECK(of_other(2) == doctest::Approx(2));  // as others that computing bounds
}

TEST_CASE("cost model: stages that shared a kernel, or come to share one, are as near to the roofline as there") {
    Steps apart;
    apart.call("h.0.up", "up", "Linear", 2e9, 0)
        .call("h.0.act", "act", "Gelu", 0, 1e9)
        .call("top", "top", "Linear", 1e9, 0);
    auto &calls = apart.plan.plans["forward"];
    calls[0].stages = {{"h.0.up", "", ""}}, calls[1].stages = {{"h.0.act", "", ""}};
    CostModel m(roof, known({{"up", 4}, {"act", 8}, {"top", 1}}));
    m.learn(apart.plan, step_calls(apart.plan, 1));
    Steps fused;
    fused.call("h.0.up + h.0.act", "both", "Linear", 2e9, 1e9);
    PlanCall &both = fused.plan.plans["forward"][0];
    both.stages = {{"h.0.up", "", ""}, {"h.0.act", "with up", ""}};
    CHECK(m.cost(fused.plan, both).seconds == doctest::Approx(2 * (4 + 8) / (2.0 + 1)));
    CostModel other(roof, known({{"both", 6}}));
    other.learn(fused.plan, step_calls(fused.plan, 1));
    CHECK(other.cost(apart.plan, calls[0]).seconds == doctest::Approx(6));
    CHECK(other.cost(apart.plan, calls[1]).seconds == doctest::Approx(3));
}

TEST_CASE("cost model: a gradient that comes into its update's loops takes its own time there, not the update's") {
    Steps apart;
    apart.call("d(h.0.b)", "gradient", "", 0, 2e9).call("next(h.0.b)", "update", "", 0, 1e6);
    auto &calls = apart.plan.plans["forward"];
    calls[0].pass = "backward", calls[0].stages = {{"d(h.0.b)", "", ""}};
    calls[1].pass = "update", calls[1].stages = {{"next(h.0.b)", "", ""}};
    const auto of_merged = [&](const std::map<std::string, double> &times) {
        CostModel m(roof, known(times));
        m.learn(apart.plan, step_calls(apart.plan, 1));
        Steps merged;
        merged.call("d(h.0.b) + next(h.0.b)", "both", "", 0, 2e9);
        PlanCall &both = merged.plan.plans["forward"][0];
        both.pass = "update", both.stages = {{"next(h.0.b)", "", ""}, {"d(h.0.b)", "in it", ""}};
        return m.cost(merged.plan, both).seconds;
    };
    CHECK(of_merged({{"gradient", 4}, {"update", 0.1}}) == doctest::Approx(4.1 * 2 / 2.001));
}

TEST_CASE("cost model: what a dialect computes is known by the dialect and its arguments") {
    PlanKernel k{.symbol = "cryolite_1",
                 .loops = "",
                 .layer = "",
                 .form = "forward",
                 .args = {{"float32", {4, 8}}},
                 .dialects = {}};
    CHECK(cost_key(k) == "cryolite_1");
    k.dialects.push_back({"onednn", {}});
    CHECK(cost_key(k) == "cryolite_1");  // it could, and does not
    k.symbol.clear();
    CHECK(cost_key(k) == "dialect onednn forward float32:4:8");
    k.dialects[0].product.window = Product::Window{.size = 3, .stride = 2, .padding = 1};
    CHECK(cost_key(k) == "dialect onednn forward float32:4:8 window 3:2:1:1:1");
}

TEST_CASE("cost model: of kernels that compute alike, the one whose inner loops allow less takes longer") {
    Steps s;
    s.call("h.0.up", "up", "Linear", 2e9, 1e8);
    const std::map<std::string, double> limits = {{"up", 0.8}, {"narrow", 0.4}};
    CostModel m(roof, known({{"up", 4}}), known(limits));
    m.learn(s.plan, step_calls(s.plan, 1));
    Steps other;
    other.call("h.0.up", "narrow", "Linear", 2e9, 1e8)
        .call("h.0.up", "unread", "Linear", 2e9, 1e8)
        .call("h.0.up", "narrow", "Linear", 1e8, 16e9);
    const auto cost = [&](const CostModel &model, size_t i) {
        return model.cost(other.plan, other.plan.plans["forward"][i]).seconds;
    };
    CHECK(cost(m, 0) == doctest::Approx(8));             // half of the limit
    CHECK(cost(m, 1) == doctest::Approx(4));             // as those alike, whatever their limit
    CHECK(cost(m, 2) == doctest::Approx(4 * 16 / 2.5));  // memory decides, and loops' limits do not
    CHECK(cost(CostModel(roof, {}, known(limits)), 0) == doctest::Approx(5));  // nothing was timed
}

TEST_CASE("explain --diff: which times were measured and which are predicted, by kernel and in sum") {
    Steps a, b;
    a.call("h.0.up", "up", "Linear", 2e9, 1e9).call("h.1.up", "up", "Linear", 2e9, 1e9);
    a.call("h.0.act", "act", "Gelu", 0, 1e9).call("h.1.act", "act", "Gelu", 0, 1e9).call("ln", "ln", "Norm", 0, 1e9);
    b.call("h.0.up", "both", "Linear", 2e9, 2e9).call("h.1.up", "both", "Linear", 2e9, 2e9);
    b.call("ln", "ln", "Norm", 0, 1e9);
    const StepDifference d = difference_of(a.plan, b.plan, 1, roof, known({{"up", 4}, {"act", 1.5}, {"ln", 1}}));
    REQUIRE(d.rows.size() == 2);  // the norm is the same
    CHECK(d.rows[0].name == "h.*.act");
    CHECK(d.rows[0].after.calls == 0);
    CHECK(d.rows[1].name == "h.*.up");
    CHECK(d.rows[1].before.measured == 2);
    CHECK(d.rows[1].after.measured == 0);
    CHECK(d.before.seconds == doctest::Approx(12));
    CHECK(d.after.seconds == doctest::Approx(9));
    const std::string text = text_of(d);
    CHECK(contains(text, "    2     2  2000.000  4000.000 +100.0%   8000.000  ~8000.000   +0.0%  h.*.up\n"));
    CHECK(contains(text, "12000.000  ~9000.000  -25.0%  the whole step\n"));
    CHECK(contains(text,
                   "6 of 8 calls have a time that was measured on this machine, once: it may be off by a few percent; "
                   "~: predicted"));
    // Loops that were measured alone differ by their code.
    Steps c;
    c.call("ln", "faster", "Norm", 0, 1e9);
    Steps e;
    e.call("ln", "ln", "Norm", 0, 1e9);
    const StepDifference loops = difference_of(e.plan, c.plan, 1, roof, known({{"ln", 1}, {"faster", 0.5}}));
    REQUIRE(loops.rows.size() == 1);
    CHECK(loops.rows[0].after.seconds == 0.5);
    CHECK(contains(text_of(loops),
                   "2 of 2 calls have a time that was measured on this machine, once: it may be off by a few "
                   "percent\n"));
    CHECK(difference_of(e.plan, e.plan, 1, roof, {}).rows.empty());
}

}  // namespace cryolite::test
