#include "bundle/plan_json.h"

#include "bundle/json_members.h"
#include "bundle/plan_check.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr const char *format_member = "format";

}  // namespace

void members(auto &io, Is<PanelLayout> auto &l) { io.needed("panel", l.panel), io.needed("dim", l.dim); }

void members(auto &io, Is<PlanInit> auto &i) { io.needed("rule", i.rule), io.needed("value", i.value); }

void members(auto &io, Is<PlanBuffer> auto &b) {
    io.needed("name", b.name), io.needed("role", b.role), io.needed("type", b.type);
    io.needed("shape", b.shape), io.needed("bytes", b.bytes);
    if (b.role == Role::activation) io.usual("offset", b.offset);
    if (b.role == Role::gradient) io.given("offset", b.offset, -1);
    io.given("parameter", b.parameter, -1), io.given("worker", b.worker, -1), io.given("level", b.level, -1);
    io.given("part_of", b.part_of, -1), io.given("begin", b.begin);
    io.given("stored", b.stored, true), io.given("layout", b.layout);
    io.given("frozen", b.frozen), io.given("of_layer", b.of_layer), io.given("init", b.init);
    io.given("constant", b.constant), io.given("format_why", b.format_why);
}

void members(auto &io, Is<PlanArgument> auto &a) {
    io.needed("type", a.type), io.needed("extents", a.extents), io.needed("written", a.written);
}

void members(auto &io, Is<PlanKernel::Dialect> auto &d) { io.needed("name", d.name), io.needed("product", d.product); }

void members(auto &io, Is<PlanKernel> auto &k) {
    io.given("symbol", k.symbol), io.needed("loops", k.loops);
    io.needed("layer", k.layer), io.needed("form", k.form);
    io.needed("args", k.args), io.given("dialects", k.dialects);
}

void members(auto &io, Is<PlanCall::Stage> auto &s) {
    io.needed("name", s.name), io.needed("placed", s.placed), io.given("why", s.why);
}

/// A pair.
static void to_json(json &j, const PlanCall::Bound &b) { j = json::array({b.buffer, b.offset}); }
static void from_json(const json &j, PlanCall::Bound &b) {
    b.buffer = whole<int>(j.at(0)), b.offset = whole<int64_t>(j.at(1));
}

void members(auto &io, Is<PlanCall> auto &c) {
    io.needed("kernel", c.kernel), io.needed("name", c.name), io.needed("pass", c.pass), io.needed("args", c.args);
    io.given("worker", c.worker, -1), io.given("sum", c.sum), io.given("workspace", c.workspace, -1);
    io.needed("stages", c.stages), io.given("why", c.why);
    io.needed("flops", c.flops), io.given("extra_flops", c.extra_flops), io.needed("bytes", c.bytes);
}

void members(auto &io, Is<PlanIds> auto &i) {
    io.needed("loss", i.loss), io.needed("input", i.input), io.needed("classes", i.classes);
    io.given("ignored", i.ignored);
    io.given("class_weights", i.class_weights, -1), io.given("mean_weight", i.mean_weight, -1);
}

void members(auto &io, Is<PlanGroup::Setting> auto &s) {
    io.needed("scalar", s.scalar), io.needed("value", s.value), io.needed("times", s.times);
}

void members(auto &io, Is<PlanGroup> auto &g) {
    io.needed("at", g.at), io.needed("settings", g.settings);
    io.needed("texts", g.texts), io.needed("parameters", g.parameters);
}

void members(auto &io, Is<Plan::Term> auto &t) { io.needed("loss", t.loss), io.needed("buffer", t.buffer); }

void members(auto &io, Is<Plan::Evaluation> auto &e) {
    io.given("hindrance", e.hindrance);
    if (!e.hindrance.empty()) return;
    io.needed("loss", e.loss), io.needed("row_weights", e.row_weights), io.given("terms", e.terms);
}

void members(auto &io, Is<Plan::Spared> auto &s) {
    io.needed("state_bytes", s.state_bytes), io.needed("gradient_bytes", s.gradient_bytes);
    io.needed("flops", s.flops);
}

void members(auto &io, Is<Plan> auto &p) {
    io.usual("device", p.device), io.given("capability", p.capability), io.needed("task", p.task);
    io.usual("workers", p.workers), io.given("parts", p.parts);
    io.needed("arena", p.arena), io.needed("arena_unshared", p.arena_unshared);
    io.needed("loss", p.loss), io.needed("output", p.output), io.given("terms", p.terms);
    io.needed("evaluation", p.evaluation), io.given("spared", p.spared), io.needed("ids", p.ids);
    io.needed("scalars", p.scalar_names), io.needed("scalar_values", p.scalar_values), io.given("groups", p.groups);
    io.given("loops_cleared", p.loops_cleared);
    io.needed("buffers", p.buffers), io.needed("kernels", p.kernels), io.needed("plans", p.plans);
}

Plan read_plan(const std::string &text, const std::string &origin) {
    Plan p;
    try {
        const json j = json::parse(text);
        if (j.at(format_member) != Plan::format)
            fail("its format is {}, expected {}: it is another version's; build again with ./cryolite",
                 j[format_member].dump(), Plan::format);
        JsonReader reader(j);
        members(reader, p);
        for (PlanKernel &k : p.kernels)
            if (k.symbol.empty()) k.chosen = 0;
        std::erase_if(p.plans, [](const auto &plan) { return plan.second.empty(); });  // empty ones count as missing
        check_plan(p);
    } catch (const json::exception &) {
        fail("the plan {} is damaged: it is not JSON, or lacks what a plan has", origin);
    } catch (const std::exception &e) {
        fail("the plan {} is damaged: {}", origin, e.what());
    }
    return p;
}

std::string plan_text(const Plan &plan) {
    json j = {{format_member, Plan::format}};
    JsonWriter writer(j);
    members(writer, plan);
    return j.dump();
}

std::string plan_format(const std::string &text) {
    const json j = json::parse(text, nullptr, false);
    return j.is_object() && j.contains(format_member) ? j[format_member].dump() : "?";
}

}  // namespace cryolite
