// Updates of several parameters in one kernel. On a GPU each kernel is a launch, which takes longer to start than the
// update of a bias takes to run, so small parameters are updated together. Their arrays are parts of joint ones, in
// which they lie side by side: the weights, their masters, their gradients, each state of the optimizer. The kernel
// runs over the joint arrays; other kernels read and write the parts of single parameters. Their norms become one, too.

#include <algorithm>
#include <tuple>

#include "generators/passes/entry_view.h"
#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

constexpr int64_t most_elements = (int64_t{1} << 31) - (1 << 20);  // kernels index elements with 32 bits

class JoinUpdates {
public:
    JoinUpdates(StepProgram &p, const Context &cx) : p(p), cx(cx), e(p, entry::step) {
        for (OpId id : e.entry.ops)
            if (auto *u = ir::as<ir::Update>(p.ops[id])) updates[u->w] = id;
    }
    void run() {
        for (ir::Line &l : p.lines)
            if (joins(l) && !l.left_out())
                if (!obey(l, [&] { take(l); })) note(l);
        take_small();
        for (auto &[into, list] : members)
            if (list.size() > 1) join(into, list);
        number_versions(p, e.entry);
    }

private:
    StepProgram &p;
    const Context &cx;
    EntryView e;
    std::map<ParamId, OpId> updates;                  ///< a parameter's update in the entry; with shards, one of them
    std::map<ParamId, ParamId> joined;                ///< the parameter whose update a parameter's update goes into
    std::map<ParamId, std::vector<ParamId>> members;  ///< all parameters of a kernel, by the one whose kernel it was

    const ir::Value &value(ParamId w) const { return p.values[p.parameters[w].value]; }
    const std::string &path(ParamId w) const { return p.parameters[w].path; }

    /// Why the update of a parameter cannot be joined: it is no loop over its elements alone, or not in this entry.
    Reason hindrance(ParamId w) const {
        if (p.parts) return {rules::sum_of_parts, p.parts};
        if (p.workers > 1) return {rules::sum_of_workers, p.workers};
        if (!p.optimizer->norms().empty()) return {rules::rule_takes_own_norm, p.optimizer->name()};
        if (p.parameters[w].deferred) return {rules::updated_elsewhere, path(w), "at forward"};
        if (e.mates(updates.at(w)).size() > 1) return {rules::updated_elsewhere, path(w), "with its gradient"};
        return {};
    }
    /// What all updates of one kernel must have in common: the numbers of the rule, whether it decays, and the formats.
    auto rule_of(ParamId w) const {
        const ir::Parameter &of = p.parameters[w];
        const ir::DataType master = of.master ? p.values[of.master].type : ir::DataType{};
        return std::tuple(of.group, of.shape.rank() > 1, value(w).type.str(), bool(of.master), master.str());
    }
    Reason difference(ParamId a, ParamId b) const {
        const auto one = rule_of(a), other = rule_of(b);
        if (one == other) return {};
        const bool numbers = std::get<0>(one) != std::get<0>(other), decays = std::get<1>(one) != std::get<1>(other);
        return {rules::other_update, path(a), path(b),
                numbers  ? "rate or decay"
                : decays ? "decay: parameters of one dimension have none"
                         : "number format"};
    }

    void take(ir::Line &l) {
        const ParamId w = l.stage.parameter, to = l.target.parameter;
        if (w == to) refuse(l, rules::same_stage, ".compute_root()");
        for (ParamId of : {w, to})
            if (Reason why = hindrance(of)) refuse(l, why, ".compute_root()");
        if (Reason why = difference(w, to)) refuse(l, why, ".compute_root()");
        const ParamId into = kernel_of(to), from = kernel_of(w);
        if (elements(into) + elements(from) > most_elements) refuse(l, rules::joint_too_large, ".compute_root()");
        if (into != from) put(from, into);
        l.met(updates.at(w));
    }
    void note(const ir::Line &l) { p.ops[updates.at(l.stage.parameter)].why = note_of(l); }
    ParamId kernel_of(ParamId w) const {
        for (auto at = joined.find(w); at != joined.end(); at = joined.find(w)) w = at->second;
        return w;
    }
    std::vector<ParamId> with(ParamId into) const {
        const auto at = members.find(into);
        return at == members.end() ? std::vector{into} : at->second;
    }
    int64_t elements(ParamId into) const {
        int64_t all = 0;
        for (ParamId w : with(into)) all += room(w);
        return all;
    }
    void put(ParamId from, ParamId into) {
        std::vector<ParamId> list = with(into);
        for (ParamId w : with(from)) list.push_back(w);
        members.erase(from), members[into] = list, joined[from] = into;
    }

    /// Joins the updates of small parameters that no line is about, each kind into the last of its kind.
    void take_small() {
        if (!cx.options.groups) return;
        std::map<decltype(rule_of({})), std::vector<ParamId>> kinds;
        for (auto &[w, id] : updates) {
            const bool asked = std::ranges::any_of(p.lines, [&, w = w](const ir::Line &l) {
                return l.places() && !l.left_out() && l.stage.kind == ir::Stage::next &&
                       (l.stage.parameter == w || (joins(l) && l.target.parameter == w));
            });
            const bool small = value(w).storage().size() <= joined_update_elements(cx.schedule.machine);
            if (small && !asked && !hindrance(w)) kinds[rule_of(w)].push_back(w);
        }
        for (auto &[kind, list] : kinds)
            if (list.size() > 1) members[last(list)] = list;
    }
    ParamId last(const std::vector<ParamId> &list) const {
        return *std::ranges::max_element(list, {}, [&](ParamId w) { return e.place(updates.at(w)); });
    }

    void join(ParamId into, std::vector<ParamId> list) {
        std::ranges::sort(list, {}, [&](ParamId w) { return e.place(updates.at(w)); });
        for (ParamId w : list)
            if (w != into) e.fuse_into(updates.at(w), updates.at(into), "with");
        auto place = [&](const std::string &what, const auto &array) { lie_side_by_side(list, what, array); };
        place("", [&](ParamId w) { return p.parameters[w].value; });
        place("d", [&](ParamId w) { return p.parameters[w].gradient; });
        for (size_t s = 0; s < p.parameters[into].states.size(); s++)
            place("", [&](ParamId w) { return p.parameters[w].states[s]; });
        if (p.parameters[into].master) place("", [&](ParamId w) { return p.parameters[w].master; });
        join_norms(list);
    }
    /// Elements that a parameter takes of joint arrays. They are rounded up, so that in every format the next parameter
    /// begins where a kernel's array can.
    int64_t room(ParamId w) const {
        const int64_t apart = cx.schedule.machine.alignment / ir::bfloat16.bytes();
        return (value(w).storage().size() + apart - 1) / apart * apart;
    }
    void lie_side_by_side(const std::vector<ParamId> &list, const std::string &what, const auto &array) {
        int64_t all = 0;
        for (ParamId w : list) all += room(w);
        const ir::Value &last = p.values[array(list.back())];
        const std::string name = what.empty() ? last.name : what + "(" + last.name + ")";
        const ValueId whole = p.values.add({.name = name_of_several(name, list.size()),
                                            .role = ir::Role::joint,
                                            .type = last.type,
                                            .shape = {int(all)}});
        int64_t begin = 0;
        for (ParamId w : list) {
            ir::Value &part = p.values[array(w)];
            part.part_of = whole, part.begin = begin;
            begin += room(w);
        }
    }
    /// Adds the squares of all their gradients into the entry of the last parameter; the others' entries stay 0.
    void join_norms(const std::vector<ParamId> &list) {
        std::vector<OpId> norms;
        for (OpId id : e.entry.ops)
            if (auto *n = ir::as<ir::Norm>(p.ops[id]); n && std::ranges::count(list, n->w)) norms.push_back(id);
        const bool one_each = norms.size() == list.size() && std::ranges::all_of(norms, [&](OpId id) {
                                  const auto *n = ir::as<ir::Norm>(p.ops[id]);
                                  return !n->of_weight() && !n->ghost() && e.mates(id).size() == 1;
                              });
        if (!one_each) return;
        ir::Op &sum = p.ops[norms.back()];
        norms.pop_back();
        sum.name = name_of_several(sum.name, list.size());
        for (OpId id : norms) {
            sum.reads.insert(sum.reads.end(), p.ops[id].reads.begin(), p.ops[id].reads.end());
            p.kernels[p.ops[id].kernel].ops.clear(), p.ops[id].kernel = {};
        }
        std::erase_if(e.entry.ops, [&](OpId id) { return std::ranges::count(norms, id) > 0; });
    }
};

}  // namespace

void join_updates(StepProgram &p, const Context &cx) {
    const bool by_itself = cx.options.groups && joined_update_elements(cx.schedule.machine) > 0;
    if (by_itself || std::ranges::any_of(p.lines, joins)) JoinUpdates(p, cx).run();
}

}  // namespace cryolite::compiler
