#include "bundle/plan.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "bundle/error.h"
#include "bundle/plan_check.h"
#include "bundle/shown.h"

namespace cryolite {

using nlohmann::json;

int64_t PlanBuffer::elements() const {
    int64_t n = 1;
    for (int e : shape) n *= e;
    return n;
}

int PlanBuffer::element_bytes() const {
    return type.ends_with("64") ? 8 : type.ends_with("16") ? 2 : type.ends_with("8") ? 1 : 4;
}

namespace {

/// A whole number of the file: what is converted without a look may be anything.
template <typename Whole> Whole whole(const json &j) {
    const bool fits = j.is_number_unsigned() ? std::in_range<Whole>(j.get<uint64_t>())
                                             : j.is_number_integer() && std::in_range<Whole>(j.get<int64_t>());
    if (!fits) fail("it has {} where a whole number is expected", shown(j.dump(-1, ' ', true)));
    return j.get<Whole>();
}
template <typename Whole> Whole whole(const json &j, const char *name, Whole otherwise) {
    return j.contains(name) ? whole<Whole>(j.at(name)) : otherwise;
}

std::vector<int> extents_of(const json &j) {
    std::vector<int> extents;
    for (const json &e : j) extents.push_back(whole<int>(e));
    return extents;
}

PlanBuffer buffer_of(const json &j) {
    PlanBuffer b;
    b.name = j.at("name"), b.role = role_named(j.at("role").get<std::string>()), b.type = j.at("type"),
    b.bytes = whole<int64_t>(j.at("bytes"));
    b.shape = extents_of(j.at("shape"));
    b.offset = whole(j, "offset", int64_t{-1});
    b.parameter = whole(j, "parameter", -1), b.worker = whole(j, "worker", -1), b.level = whole(j, "level", -1);
    b.stored = j.value("stored", true), b.frozen = j.value("frozen", ""), b.of_layer = j.value("of_layer", false);
    b.format_why = j.value("format_why", "");
    if (j.contains("layout")) b.layout = {whole<int>(j["layout"].at("panel")), whole<int>(j["layout"].at("dim"))};
    if (j.contains("constant")) b.constant = j["constant"].get<std::vector<float>>();
    if (j.contains("init")) b.init_rule = j["init"].at("rule"), b.init_value = j["init"].at("value");
    return b;
}

PlanKernel kernel_of(const json &j) {
    PlanKernel k{j.value("symbol", ""), j.at("loops"), j.at("layer"), j.at("form"), {}, {}};
    for (const json &a : j.at("args")) k.args.push_back({a.at("type"), extents_of(a.at("extents")), a.at("written")});
    if (j.contains("dialects"))
        for (const json &d : j["dialects"]) k.dialects.push_back({d.at("name"), d.at("product")});
    if (k.symbol.empty()) k.chosen = 0;
    return k;
}

PlanCall call_of(const json &j) {
    PlanCall c;
    c.kernel = whole<int>(j.at("kernel")), c.name = j.at("name"), c.pass = j.at("pass");
    c.flops = j.at("flops"), c.extra_flops = j.value("extra_flops", 0.0), c.bytes = whole<int64_t>(j.at("bytes")),
    c.why = j.value("why", "");
    c.workspace = whole(j, "workspace", -1);
    c.worker = whole(j, "worker", -1), c.sum = whole(j, "sum", int64_t{0});
    for (const json &s : j.at("stages")) c.stages.push_back({s.at("name"), s.at("placed"), s.value("why", "")});
    for (const json &a : j.at("args")) c.args.push_back({whole<int>(a.at(0)), whole<int64_t>(a.at(1))});
    return c;
}

Plan::Evaluation evaluation_of(const json &j) {
    if (j.contains("hindrance")) return {.hindrance = j["hindrance"]};
    Plan::Evaluation e{.loss = whole<int>(j.at("loss")), .row_weights = whole<int>(j.at("row_weights"))};
    for (const json &t : j.value("terms", json::array())) e.terms.push_back(whole<int>(t));
    return e;
}

Plan::Spared spared_of(const json &j) {
    return {whole<int64_t>(j.at("state_bytes")), whole<int64_t>(j.at("gradient_bytes")), j.at("flops")};
}

PlanIds ids_of(const json &j) {
    PlanIds ids{.loss = j.at("loss"),
                .input = whole<int>(j.at("input")),
                .classes = whole<int>(j.at("classes")),
                .ignored = {}};
    if (j.contains("ignored")) ids.ignored = j["ignored"].get<double>();
    ids.class_weights = whole(j, "class_weights", -1), ids.mean_weight = whole(j, "mean_weight", -1);
    return ids;
}

PlanGroup group_of(const json &j) {
    PlanGroup g;
    g.at = whole<int>(j.at("at")), g.texts = j.at("texts").get<std::vector<std::string>>();
    for (const json &s : j.at("settings")) g.settings.push_back({s.at("scalar"), s.at("value"), s.at("times")});
    for (const json &w : j.at("parameters")) g.parameters.push_back(whole<int>(w));
    return g;
}

}  // namespace

std::string Plan::format_of(const std::string &text) {
    const json j = json::parse(text, nullptr, false);
    return j.is_object() && j.contains("format") ? j["format"].dump() : "?";
}

Plan Plan::parse(const std::string &text, const std::string &origin) {
    Plan p;
    try {
        json j = json::parse(text);
        if (j.at("format") != format)
            fail("its format is {}, expected {}: it is another version's; build again with ./cryolite",
                 j["format"].dump(), format);
        p.workers = whole(j, "workers", 1), p.parts = whole(j, "parts", 0);
        p.device = j.value("device", p.device);
        p.capability = whole(j, "capability", 0);
        p.task = j.at("task"), p.arena = whole<int64_t>(j.at("arena")),
        p.arena_unshared = whole<int64_t>(j.at("arena_unshared"));
        p.loss = whole<int>(j.at("loss")), p.output = whole<int>(j.at("output"));
        p.evaluation = evaluation_of(j.at("evaluation"));
        if (j.contains("spared")) p.spared = spared_of(j["spared"]);
        p.scalar_names = j.at("scalars").get<std::vector<std::string>>();
        p.scalar_values = j.at("scalar_values").get<std::vector<double>>();
        for (const json &g : j.value("groups", json::array())) p.groups.push_back(group_of(g));
        for (const json &b : j.at("buffers")) p.buffers.push_back(buffer_of(b));
        for (const json &t : j.value("terms", json::array()))
            p.terms.push_back({t.at("loss"), whole<int>(t.at("buffer"))});
        for (const json &i : j.at("ids")) p.ids.push_back(ids_of(i));
        for (const json &k : j.at("kernels")) p.kernels.push_back(kernel_of(k));
        for (auto &[name, calls] : j.at("plans").items())
            for (const json &c : calls) p.plans[name].push_back(call_of(c));
        check_plan(p);
    } catch (const json::exception &) {
        fail("the plan {} is damaged: it is not JSON, or lacks what a plan has", origin);
    } catch (const std::exception &e) {
        fail("the plan {} is damaged: {}", origin, e.what());
    }
    return p;
}

const PlanKernel::Dialect *PlanKernel::dialect(const std::string &name) const {
    for (const Dialect &d : dialects)
        if (d.name == name) return &d;
    return nullptr;
}

void Plan::choose(const std::map<std::string, DialectChoice> &dialects) {
    auto choice = [&](const PlanKernel &k) {
        auto at = dialects.find(k.symbol);
        return k.symbol.empty() || k.dialects.empty() || at == dialects.end() ? nullptr : &at->second;
    };
    for (auto &[name, calls] : plans)
        for (PlanCall &c : calls)
            if (c.kernel >= 0)
                if (const DialectChoice *chosen = choice(kernels[size_t(c.kernel)])) c.why = chosen->why;
    for (PlanKernel &k : kernels)
        if (const DialectChoice *chosen = choice(k))
            if (const PlanKernel::Dialect *d = k.dialect(chosen->dialect))
                k.chosen = int(d - k.dialects.data()), k.loops = d->name;
}

int Plan::find(Role role, const std::string &name) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == role && (name.empty() || buffers[b].name == name)) return b;
    return -1;
}

int Plan::scalar(const std::string &name) const {
    for (int s = 0; s < int(scalar_names.size()); s++)
        if (scalar_names[s] == name) return s;
    return -1;
}

int Plan::master_of(int parameter) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if ((buffers[b].role == Role::master_low || buffers[b].role == Role::master) &&
            buffers[b].parameter == parameter)
            return b;
    return -1;
}

int Plan::gradient_of(int parameter) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == Role::gradient && buffers[b].parameter == parameter) return b;
    return -1;
}

int64_t Plan::elements(const PlanCall &call, size_t argument) const {
    if (call.sum > 0) return call.sum;
    int64_t n = 1;
    for (int e : kernels[size_t(call.kernel)].args[argument].extents) n *= e;
    return n;
}

std::map<std::string, int64_t> Plan::memory(int replicas) const {
    std::map<std::string, int64_t> bytes = {{role_name(Role::activation), arena * replicas}};
    for (const PlanBuffer &b : buffers)
        if (b.stored && b.role != Role::activation)
            bytes[role_name(b.role)] +=
                b.bytes * (b.role == Role::gradient || b.role == Role::input || b.role == Role::partial ? replicas : 1);
    return bytes;
}

const std::string &Plan::loops(const PlanCall &c) const {
    static const std::string sum = "sum of workers";
    return c.kernel < 0 ? sum : kernels[size_t(c.kernel)].loops;
}

bool Plan::writes(const PlanCall &c, size_t argument) const {
    return c.kernel < 0 || kernels[size_t(c.kernel)].args[argument].written;
}

int64_t Plan::parameters() const {
    int64_t n = 0;
    for (const PlanBuffer &b : buffers)
        if (b.role == Role::parameter && !b.of_layer) n += b.elements();
    return n;
}

int64_t Plan::trained_parameters() const {
    int64_t n = 0;
    for (const PlanBuffer &b : buffers)
        if (b.role == Role::parameter && !b.of_layer && b.frozen.empty()) n += b.elements();
    return n;
}

}  // namespace cryolite
