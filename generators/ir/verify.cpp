#include "generators/ir/verify.h"

#include <algorithm>

namespace cryolite::ir {

namespace {

enum RuleId {
    written_before_read,
    state_versions,
    unstored_inside,
    one_anchor,
    entry_in_kernels,
    remat_before_read,
    shards_cover,
    one_slot,
    parts_inside,
    declared_arguments
};

[[noreturn]] void broken(RuleId rule, const std::string &what) {
    fail("[{}] {}: {}", verifier_rules()[rule].name, verifier_rules()[rule].says, what);
}

/// Whether values of a role persist between entries or come from outside, so that no operation has to write them.
bool given(Role r) { return r != Role::activation; }

/// Where in an entry the elements of a value are last written, be it through the value itself or through another one
/// that shares some of its elements.
class Writes {
public:
    Writes(const Program &p, const std::vector<OpId> &ops) : p(p) {
        for (int t = 0; t < int(ops.size()); t++)
            for (const Ref &w : p.ops[ops[size_t(t)]].writes) of_base[p.base(w.value)][w.value] = t;
    }
    /// -1: the entry does not write it.
    int last(ValueId v) const {
        int time = -1;
        if (auto writes = of_base.find(p.base(v)); writes != of_base.end())
            for (auto &[other, t] : writes->second)
                if (overlap(p.values[v], p.values[other])) time = std::max(time, t);
        return time;
    }

private:
    const Program &p;
    std::map<ValueId, std::map<ValueId, int>> of_base;
    static bool overlap(const Value &a, const Value &b) {
        return a.begin < b.begin + b.shape.size() && b.begin < a.begin + a.shape.size();
    }
};

class Verifier {
public:
    explicit Verifier(const Program &p) : p(p) {
        if (auto f = p.entries.find(entry::forward); f != p.entries.end())
            for (OpId id : f->second.ops)
                for (const Ref &w : p.ops[id].writes) forward.insert(p.base(w.value));
        for (const Value &v : p.values)
            if (v.remat) remats.insert(v.remat);
    }
    void run() {
        for (auto &[name, entry] : p.entries) {
            order(name, entry);
            versions(name, entry);
            if (!entry.kernels.empty()) kernels(name, entry);
        }
        for (const Kernel &k : p.kernels)
            if (!k.name.empty()) anchors(k);  // kernels get names and anchors together
        for (const Parameter &w : p.parameters) shards(w);
        for (const Value &v : p.values)
            if (v.part_of) part(v);
        slots();
    }

private:
    const Program &p;
    std::set<ValueId> forward, remats;

    /// Until the pass infer-reads, a gradient lists all that its call saw among its reads, also values that a chunk of
    /// the head writes later.
    bool only_offered(const Op &op, ValueId v) const {
        const auto use = use_of(op);
        if (!use) return false;
        const Call &c = p.calls[use->call];
        return v == p.operand(op, c.output) ||
               std::ranges::any_of(c.inputs, [&](ValueId x) { return v == p.operand(op, x); });
    }
    std::string where(const std::string &entry, const Op &op) const { return "'" + op.name + "' of " + entry; }

    void order(const std::string &name, const Entry &e) const {
        const Writes writes(p, e.ops);
        const bool after_forward = !e.holds_forward;
        for (int t = 0; t < int(e.ops.size()); t++) {
            const Op &op = p.ops[e.ops[size_t(t)]];
            for (const Ref &r : op.reads) {
                const Value &v = p.values[r.value];
                if (v.is_state() || (e.kernels.empty() && only_offered(op, r.value))) continue;
                const int written = writes.last(r.value);
                const bool early = written >= t,
                           never = written < 0 && !given(v.role) && !(after_forward && forward.count(p.base(r.value)));
                if (!early && !never) continue;
                const bool remat = remats.count(r.value);
                broken(remat ? remat_before_read : written_before_read,
                       where(name, op) + " reads '" + v.name +
                           (early ? "' before it is written" : "', which nothing writes"));
            }
        }
    }
    void versions(const std::string &name, const Entry &e) const {
        std::map<ValueId, int> now;
        for (OpId id : e.ops) {
            const Op &op = p.ops[id];
            auto check = [&](const Ref &r, int expected, const char *does) {
                if (p.values[r.value].is_state() && r.version != expected)
                    broken(state_versions, fmt::format("{} {} '{}' as version {}, where version {} is", where(name, op),
                                                       does, p.values[r.value].name, r.version, expected));
            };
            for (const Ref &r : op.reads) check(r, now[r.value], "reads");
            for (const Ref &w : op.writes) check(w, ++now[w.value], "writes");
        }
    }
    void kernels(const std::string &name, const Entry &e) const {
        std::vector<OpId> listed;
        for (KernelId k : e.kernels) listed.insert(listed.end(), p.kernels[k].ops.begin(), p.kernels[k].ops.end());
        if (listed != e.ops) broken(entry_in_kernels, "the kernels of " + name + " do not");
        std::map<ValueId, KernelId> writer;
        for (OpId id : e.ops) {
            const Op &op = p.ops[id];
            for (const Ref &w : op.writes) writer[w.value] = op.kernel;
            for (const Ref &r : op.reads) {
                const Value &v = p.values[r.value];
                auto w = writer.find(r.value);
                const bool inside = w != writer.end() && w->second == op.kernel;
                // A kernel may compute a cheap value once more.
                const bool cheap = v.producer && p.layer(v.producer).nature != Nature::anchor;
                if (!v.stored && v.role != Role::share && !v.part_of && !inside && !cheap)
                    broken(unstored_inside, where(name, op) + " reads '" + v.name + "', which another kernel makes");
            }
        }
    }
    void anchors(const Kernel &k) const {
        for (OpId id : k.ops) {
            const Op &op = p.ops[id];
            if (id == k.anchor || p.nature(op) != Nature::anchor) continue;
            const bool declared = std::ranges::count(k.side_products, id) > 0;
            if (!declared || !is<ParamGrad>(op)) broken(one_anchor, "'" + op.name + "' in the kernel '" + k.name + "'");
        }
    }
    void shards(const Parameter &w) const {
        if (w.shards.empty()) return;
        std::vector<Shard> list = w.shards;
        std::ranges::sort(list, {}, &Shard::begin);
        int64_t end = 0;
        for (const Shard &s : list) {
            if (s.begin != end || s.count <= 0) broken(shards_cover, fmt::format("'{}' at element {}", w.path, end));
            end += s.count;
        }
        if (end != p.values[w.value].storage().size())
            broken(shards_cover, fmt::format("'{}' ends at element {}", w.path, end));
        std::map<int64_t, int> updates;
        for (auto &[name, e] : p.entries)
            for (OpId id : e.ops)
                if (auto *u = as<Update>(p.ops[id]); u && &p.parameters[u->w] == &w && !e.repeats)
                    updates[u->shard.begin]++;
        for (const Shard &s : w.shards)
            if (updates[s.begin] != 1)
                broken(shards_cover,
                       fmt::format("'{}' from {} on is updated {} times", w.path, s.begin, updates[s.begin]));
    }
    void part(const Value &v) const {
        const Value &whole = p.values[v.part_of];
        if (whole.part_of)
            broken(parts_inside, fmt::format("'{}' is of '{}', which is a part itself", v.name, whole.name));
        if (v.type != whole.type)
            broken(parts_inside,
                   fmt::format("'{}' is {}, and '{}' {}", v.name, v.type.str(), whole.name, whole.type.str()));
        if (v.begin < 0 || v.begin + v.storage().size() > whole.storage().size())
            broken(parts_inside, fmt::format("'{}' has {} elements from {} on, and '{}' {}", v.name, v.storage().size(),
                                             v.begin, whole.name, whole.storage().size()));
    }
    void slots() const {
        std::map<int, std::string> taken;
        for (auto &[name, e] : p.entries)
            for (OpId id : e.ops)
                if (auto *n = as<Norm>(p.ops[id]); n && numbered())
                    if (auto [at, fresh] = taken.emplace(n->slot, p.ops[id].name); !fresh)
                        broken(one_slot,
                               fmt::format("'{}' and '{}' both write {}", at->second, p.ops[id].name, n->slot));
    }
    /// Norms have their slots once updates are sharded.
    bool numbered() const {
        return std::ranges::any_of(p.parameters,
                                   [](const Parameter &w) { return w.gradient_norm.count || w.weight_norm.count; });
    }
};

}  // namespace

const std::vector<VerifierRule> &verifier_rules() {
    static const std::vector<VerifierRule> rules = {
        {"written-before-read", "a value is written before it is read"},
        {"state-versions", "a state is read and written in the order of its versions"},
        {"unstored-inside", "a value that is not stored stays inside its kernel"},
        {"one-anchor", "a kernel has one anchor, and side products that it declares"},
        {"entry-in-kernels", "the kernels of an entry hold its operations, once and in order"},
        {"remat-before-read", "a rematerialised value is written before it is read"},
        {"shards-cover", "shards cover a parameter once"},
        {"one-slot", "every norm has a slot of its own"},
        {"parts-inside", "a part of a value lies inside of it, in its format"},
        {"declared-arguments", "a kernel's arguments lie within what its operations read and write"},
    };
    return rules;
}

void verify(const Program &p, const std::string &after_pass) {
    try {
        Verifier(p).run();
    } catch (const Error &e) {
        fail("after the pass {}, the step's program is broken: {}; report this", after_pass, e.what());
    }
}

namespace {
/// The layer of a kernel's first call: " of [h.0.norm] RMSNorm".
std::string of_layer(const Program &p, const Kernel &k) {
    for (OpId id : k.ops)
        if (auto c = call_of(p.ops[id])) return fmt::format(" of [{}] {}", p.layer(*c).path, p.layer(*c).kind);
    return "";
}
}  // namespace

void verify_arguments(const Program &p, const Kernel &k, const std::vector<ValueId> &read,
                      const std::vector<ValueId> &written) {
    std::set<ValueId> reads, writes;
    for (OpId id : k.ops) {
        const Op &op = p.ops[id];
        for (const Ref &r : op.reads) reads.insert({r.value, p.state_in(r.value)});
        for (const Ref &w : op.writes) writes.insert({w.value, p.state_in(w.value)});
    }
    auto check = [&](const std::vector<ValueId> &list, const std::set<ValueId> &declared, const char *does) {
        for (ValueId v : list)
            if (!declared.count(v))
                broken(declared_arguments,
                       fmt::format("the kernel '{}'{} {} '{}', but did not when the step was planned; a "
                                   "layer must define the same however often it is asked",
                                   k.name, of_layer(p, k), does, p.values[v].name));
    };
    check(read, reads, "reads");
    check(written, writes, "writes");
}

}  // namespace cryolite::ir
