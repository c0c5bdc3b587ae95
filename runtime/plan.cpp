#include "runtime/plan.h"

#include <nlohmann/json.hpp>

#include "runtime/error.h"

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

PlanBuffer buffer_of(const json &j) {
    PlanBuffer b;
    b.name = j.at("name"), b.role = j.at("role"), b.type = j.at("type"), b.bytes = j.at("bytes");
    b.shape = j.at("shape").get<std::vector<int>>();
    b.offset = j.value("offset", int64_t{-1});
    b.parameter = j.value("parameter", -1), b.worker = j.value("worker", -1);
    b.stored = j.value("stored", true);
    if (j.contains("layout")) b.layout = {j["layout"].at("panel"), j["layout"].at("dim")};
    if (j.contains("init")) b.init_rule = j["init"].at("rule"), b.init_value = j["init"].at("value");
    return b;
}

PlanKernel kernel_of(const json &j) {
    PlanKernel k{j.value("symbol", ""), j.at("loops"), j.at("layer"), j.at("form"), {}, {}};
    for (const json &a : j.at("args"))
        k.args.push_back({a.at("type"), a.at("extents").get<std::vector<int>>(), a.at("written")});
    if (j.contains("dialects"))
        for (const json &d : j["dialects"]) k.dialects.push_back({d.at("name"), d.at("product")});
    if (k.symbol.empty()) k.chosen = 0;
    return k;
}

PlanCall call_of(const json &j) {
    PlanCall c;
    c.kernel = j.at("kernel"), c.name = j.at("name"), c.pass = j.at("pass");
    c.flops = j.at("flops"), c.extra_flops = j.value("extra_flops", 0.0), c.bytes = j.at("bytes"), c.why = j.value("why", "");
    c.worker = j.value("worker", -1), c.sum = j.value("sum", int64_t{0});
    for (const json &s : j.at("stages")) c.stages.push_back({s.at("name"), s.at("placed"), s.value("why", "")});
    for (const json &a : j.at("args")) c.args.push_back({a.at(0), a.at(1)});
    return c;
}

void check_sum(const Plan &p, const PlanCall &c) {
    if (c.worker < 0 || c.args.size() != 1 || c.args[0].buffer < 0 || c.args[0].buffer >= int(p.buffers.size()))
        fail("'{}' is no sum of one buffer for one worker", c.name);
    const PlanBuffer &b = p.buffers[size_t(c.args[0].buffer)];
    if (b.type != "float32" || b.role == "activation" || c.args[0].offset < 0 || (c.args[0].offset + c.sum) * b.element_bytes() > b.bytes)
        fail("'{}' reaches past the end of '{}', or cannot add it", c.name, b.name);
}

/// A dialect relies on what is said of its arguments as compiled code does.
void check_dialects(const PlanKernel &k) {
    if (k.symbol.empty() && k.dialects.empty()) fail("a kernel of layer '{}' has neither code nor a dialect", k.layer);
    std::vector<int64_t> elements;
    std::vector<bool> written;
    for (const PlanArgument &a : k.args) {
        elements.push_back(1), written.push_back(a.written);
        for (int e : a.extents) elements.back() *= e;
    }
    for (const PlanKernel::Dialect &d : k.dialects) d.product.check(elements, written);
}

/// What the executor relies on: every index is in range, and every argument fits its buffer.
void check(const Plan &p) {
    for (const PlanKernel &k : p.kernels) check_dialects(k);
    for (auto &[name, calls] : p.plans)
        for (const PlanCall &c : calls) {
            if (c.worker < -1 || c.worker >= p.workers) fail("'{}' is for worker {} of {}", c.name, c.worker, p.workers);
            if (c.sum > 0) {
                check_sum(p, c);
                continue;
            }
            if (c.kernel < 0 || c.kernel >= int(p.kernels.size())) fail("a call of '{}' names no kernel", name);
            const PlanKernel &k = p.kernels[c.kernel];
            if (c.args.size() != k.args.size()) fail("'{}' has {} arguments, its kernel {}", c.name, c.args.size(), k.args.size());
            for (size_t i = 0; i < c.args.size(); i++) {
                if (c.args[i].buffer < 0 || c.args[i].buffer >= int(p.buffers.size())) fail("'{}' reads a buffer that is not there", c.name);
                const PlanBuffer &b = p.buffers[c.args[i].buffer];
                int64_t n = c.args[i].offset;
                int64_t count = 1;
                for (int e : k.args[i].extents) count *= e;
                if (n < 0 || (n + count) * b.element_bytes() > b.bytes) fail("'{}' reaches past the end of '{}'", c.name, b.name);
                if (b.role == "share" && (c.worker < 0 || b.worker < 0 || b.worker >= p.workers || p.gradient_of(b.parameter) < 0))
                    fail("'{}' reads '{}', the gradient of no worker", c.name, b.name);
                if (b.role == "activation" && (b.offset < 0 || b.offset + b.bytes > p.arena)) fail("'{}' lies outside of the arena", b.name);
            }
        }
}

}  // namespace

std::string Plan::format_of(const fs::path &path) {
    const json j = json::parse(read_file(path), nullptr, false);
    return j.is_object() && j.contains("format") ? j["format"].dump() : "?";
}

Plan Plan::load(const fs::path &path) {
    Plan p;
    try {
        json j = json::parse(read_file(path));
        if (j.at("format") != format)
            fail("its format is {}, expected {}: it is another version's; build again with ./cryolite",
                 j["format"].dump(), format);
        p.workers = j.value("workers", 1);
        p.device = j.value("device", p.device);
        p.task = j.at("task"), p.arena = j.at("arena"), p.arena_unshared = j.at("arena_unshared");
        p.loss = j.at("loss"), p.output = j.at("output");
        p.scalar_names = j.at("scalars").get<std::vector<std::string>>();
        p.scalar_values = j.at("scalar_values").get<std::vector<double>>();
        for (const json &b : j.at("buffers")) p.buffers.push_back(buffer_of(b));
        for (const json &k : j.at("kernels")) p.kernels.push_back(kernel_of(k));
        for (auto &[name, calls] : j.at("plans").items())
            for (const json &c : calls) p.plans[name].push_back(call_of(c));
        check(p);
    } catch (const std::exception &e) {
        fail("the plan {} is damaged: {}", path.string(), e.what());
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
            if (const PlanKernel::Dialect *d = k.dialect(chosen->dialect)) k.chosen = int(d - k.dialects.data()), k.loops = d->name;
}

int Plan::find(const std::string &role, const std::string &name) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == role && (name.empty() || buffers[b].name == name)) return b;
    return -1;
}

int Plan::scalar(const std::string &name) const {
    for (int s = 0; s < int(scalar_names.size()); s++)
        if (scalar_names[s] == name) return s;
    return -1;
}

int Plan::remainder_of(int parameter) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == "remainder" && buffers[b].parameter == parameter) return b;
    return -1;
}

int Plan::gradient_of(int parameter) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == "gradient" && buffers[b].parameter == parameter) return b;
    return -1;
}

int64_t Plan::elements(const PlanCall &call, size_t argument) const {
    if (call.sum > 0) return call.sum;
    int64_t n = 1;
    for (int e : kernels[size_t(call.kernel)].args[argument].extents) n *= e;
    return n;
}

std::map<std::string, int64_t> Plan::memory() const {
    std::map<std::string, int64_t> bytes = {{"activation", arena * workers}};
    for (const PlanBuffer &b : buffers)
        if (b.stored && b.role != "activation") bytes[b.role] += b.bytes * (b.role == "gradient" || b.role == "input" ? workers : 1);
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
        if (b.role == "parameter") n += b.elements();
    return n;
}

}  // namespace cryolite
