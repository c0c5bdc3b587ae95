// Places activations, and gradients that no other entry reads, in one arena. Values that are not alive at the same time
// may share a place.

#include <algorithm>
#include <array>

#include "generators/passes/placement/memory.h"
#include "generators/passes/pipeline.h"
#include "schedules/table.h"

namespace cryolite::compiler {

namespace {

constexpr int64_t slack = 256;  // the tile of a padded panel reads past the last element, and drops what it read
constexpr size_t most_entries = 8;

struct Life {
    int first = -1, last = -1;
    void touch(int t) {
        if (first < 0) first = t;
        last = t;
    }
    bool overlaps(const Life &o) const { return first >= 0 && o.first >= 0 && first <= o.last && o.first <= last; }
};

/// A value's lives on the time lines of the entries.
struct Lives {
    std::array<Life, most_entries> of;
    bool any = false;
    bool overlap(const Lives &o) const {
        for (size_t e = 0; e < most_entries; e++)
            if (of[e].overlaps(o.of[e])) return true;
        return false;
    }
};

/// By value: whether it lives in the arena. A gradient does where one worker computes it anew in each step, within one
/// entry. The padding of a layout is written only once, so a padded gradient has memory of its own.
std::vector<bool> of_arena(const StepProgram &p) {
    std::vector<bool> of_arena(size_t(p.values.size()));
    std::vector<int> entries(of_arena.size());
    for (ValueId v : p.values.ids()) {
        const ir::Value &value = p.values[v];
        const bool gradient = value.role == ir::Role::gradient && p.workers == 1 && !p.parts && !value.part_of &&
                              value.storage().size() == value.shape.size();
        of_arena[size_t(v.index)] = value.role == ir::Role::activation || gradient;
    }
    for (auto &[name, entry] : p.entries) {
        std::set<ValueId> here;
        for (KernelId k : entry.kernels)
            for (OpId id : p.kernels[k].ops) {
                for (const ir::Ref &r : p.ops[id].writes) here.insert(r.value);
                for (const ir::Ref &r : p.ops[id].reads) {
                    here.insert(r.value);
                    if (p.values[r.value].role == ir::Role::gradient && r.version == 0)
                        of_arena[size_t(r.value.index)] = false;
                }
            }
        for (ValueId v : here) entries[size_t(v.index)]++;
    }
    for (ValueId v : p.values.ids())
        if (p.values[v].role == ir::Role::gradient && entries[size_t(v.index)] != 1) of_arena[size_t(v.index)] = false;
    return of_arena;
}

/// The lives of all values. An entry that does not hold the forward pass runs after it, so its time line begins with
/// that pass. Gradients can still be read when their entry has ended.
std::vector<Lives> lives(const StepProgram &p, const std::vector<Touched> &touched) {
    std::vector<Lives> lives(size_t(p.values.size()));
    const std::vector<bool> in_arena = of_arena(p);
    const auto &forward = p.entries.at(entry::forward).kernels;
    size_t n = 0;
    for (auto &[name, entry] : p.entries) {
        std::vector<KernelId> line;
        if (!entry.holds_forward) line = forward;
        line.insert(line.end(), entry.kernels.begin(), entry.kernels.end());
        for (int t = 0; t < int(line.size()); t++)
            for (ValueId v : touched.at(size_t(line[size_t(t)].index)).values)
                if (in_arena[size_t(v.index)]) {
                    const bool stays = p.values[v].role == ir::Role::gradient;
                    Lives &l = lives[size_t(p.base(v).index)];
                    l.of.at(n).touch(t), l.any = true;
                    if (stays) l.of.at(n).touch(int(line.size()));
                }
        for (ValueId result : entry.results)
            if (Life &life = lives[size_t(result.index)].of.at(n); life.first >= 0) life.touch(int(line.size()));
        n++;
    }
    return lives;
}

/// Whether `result` may take the place of `old`: they are equally large, and whenever `result` is alive, its life
/// begins with the kernel that `old` ends with.
bool takes_place(const StepProgram &p, ValueId result, const Lives &begins, ValueId old, const Lives &ends) {
    if (!begins.any || !ends.any || p.values[result].bytes() != p.values[old].bytes()) return false;
    for (size_t e = 0; e < most_entries; e++)
        if (begins.of[e].first >= 0 && ends.of[e].last != begins.of[e].first) return false;
    return true;
}

/// The values that take the place of others, which then live as long as those that replace them.
std::map<ValueId, ValueId> replacements(const StepProgram &p, const std::vector<Touched> &touched,
                                        std::vector<Lives> &alive) {
    std::map<ValueId, ValueId> replaced;
    for (const Touched &kernel : touched) {
        if (!kernel.replaceable) continue;
        const ValueId old = p.base(kernel.replaceable), result = p.base(kernel.result);
        Lives &ends = alive[size_t(old.index)], &begins = alive[size_t(result.index)];
        if (!takes_place(p, result, begins, old, ends)) continue;
        for (size_t e = 0; e < most_entries; e++) ends.of[e].last = std::max(ends.of[e].last, begins.of[e].last);
        begins.any = false, replaced[result] = old;
    }
    return replaced;
}

/// Whether a layer's adjoint has the loops that are written for layers of its type on a CPU. Those allow it to replace
/// its input.
bool has_written_loops(const Step &step, const Layer &layer) {
    if (step.machine.gpu() || !step.loops_written || !has_loops(loops_kind(layer), step.machine)) return false;
    if (step.loops_of.contains({std::type_index(typeid(layer)), Form::d_input})) return false;
    return !step.asks_for_automatic(layer, Form::d_input);
}

}  // namespace

ir::MemoryPlan place_activations(const StepProgram &p, const std::vector<Touched> &touched) {
    std::vector<Lives> alive = lives(p, touched);
    const std::map<ValueId, ValueId> replaced = replacements(p, touched, alive);
    const int64_t alignment = p.schedule->machine.alignment;
    auto padded = [&](ValueId v) { return (p.values[v].bytes() + slack + alignment - 1) / alignment * alignment; };
    struct Placed {
        ValueId value;
        int64_t bytes, at;
    };
    std::vector<Placed> list;
    for (ValueId v : p.values.ids())
        if (alive[size_t(v.index)].any) list.push_back({v, p.values[v].bytes(), 0});
    std::ranges::stable_sort(list, std::greater(), &Placed::bytes);
    ir::MemoryPlan plan;
    for (size_t n = 0; n < list.size(); n++) {
        Placed &now = list[n];
        now.bytes = padded(now.value);
        std::vector<std::pair<int64_t, int64_t>> taken;  // begin, end
        for (size_t o = 0; o < n; o++)
            if (alive[size_t(now.value.index)].overlap(alive[size_t(list[o].value.index)]))
                taken.push_back({list[o].at, list[o].at + list[o].bytes});
        std::ranges::sort(taken);
        for (auto &[begin, end] : taken) {
            if (now.at + now.bytes <= begin) break;
            now.at = std::max(now.at, end);
        }
        plan.offset[now.value] = now.at;
        plan.bytes = std::max(plan.bytes, now.at + now.bytes);
        plan.unshared += now.bytes;
    }
    for (auto &[result, old] : replaced) plan.offset[result] = plan.offset.at(old), plan.unshared += padded(result);
    return plan;
}

std::map<ir::Role, int64_t> memory_by_role(const StepProgram &p, int replicas) {
    std::map<ir::Role, int64_t> bytes = {{ir::Role::activation, replicas * p.memory.bytes}};
    for (ValueId id : p.values.ids()) {
        const ir::Value &v = p.values[id];
        const bool of_each = v.role == ir::Role::gradient || v.role == ir::Role::input || v.role == ir::Role::partial;
        const bool here = v.stored && (!v.part_of || v.is_state()) && v.role != ir::Role::joint;  // its parts count
        const bool in_arena = v.role == ir::Role::activation || p.memory.offset.contains(id);
        if (here && !in_arena && v.role != ir::Role::share) bytes[v.role] += v.bytes() * (of_each ? replicas : 1);
    }
    return bytes;
}

int64_t step_bytes(const StepProgram &p) {
    int64_t all = 0;
    for (auto &[role, bytes] : memory_by_role(p, p.workers)) all += bytes;
    return all;
}

/// Plans from what operations read and write. The driver plans again when it knows what compiled kernels really do.
void plan_memory(StepProgram &p, const Context &) {
    std::vector<Touched> touched;
    for (const ir::Kernel &k : p.kernels) {
        Touched &t = touched.emplace_back();
        auto &list = t.values;
        for (OpId id : k.ops)
            for (auto *refs : {&p.ops[id].reads, &p.ops[id].writes})
                for (const ir::Ref &r : *refs)
                    if (p.values[r.value].stored) list.push_back(r.value);
        if (k.workspace) list.push_back(k.workspace);
        const ValueId replaceable = p.replaceable_input(k);
        if (replaceable && has_written_loops(*p.schedule, p.source(*ir::call_of(p.ops[k.ops[0]]))))
            t.replaceable = replaceable, t.result = p.ops[k.ops[0]].writes[0].value;
    }
    p.memory = place_activations(p, touched);
}

}  // namespace cryolite::compiler
