// Updates that are placed at forward. They move from the step into the next forward pass (the entry "deferred"), each
// before the first use of its parameter. The entry "flush" runs them alone.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

bool defers(const ir::Line &l) {
    return l.how == ir::Line::at && !l.left_out() && l.stage.kind == ir::Stage::next &&
           l.target.kind == ir::Stage::pass;
}

/// The parameters whose updates are to wait, and what says so.
std::map<ParamId, std::string> asked(const StepProgram &p, const Context &cx) {
    std::map<ParamId, std::string> why;
    const bool all = cx.options.update == "forward";
    if (all)
        for (ParamId w : p.trained()) why[w] = "--update forward";
    auto of_update = [](const ir::Line &l) {
        return l.places() && (l.stage.kind == ir::Stage::next || l.stage.kind == ir::Stage::gradient);
    };
    for (const ir::Line &l : p.lines)
        if (of_update(l)) why.erase(l.stage.parameter);
    for (const ir::Line &l : p.lines)
        if (defers(l)) why[l.stage.parameter] = all ? "--update forward" : "a line of the step schedule";
    return why;
}

}  // namespace

void defer_updates(StepProgram &p, const Context &cx) {
    const std::map<ParamId, std::string> why = asked(p, cx);
    if (why.empty()) return;
    std::map<ParamId, std::vector<OpId>> updates;
    auto &step = p.entries.at(entry::step).ops;
    const std::vector<ValueId> &results = p.entries.at(entry::forward).results;
    ir::Entry deferred{.mode = ir::Entry::training, .holds_forward = true, .results = results};
    ir::Entry flush{.mode = ir::Entry::training, .repeats = true, .results = {p.loss}};
    for (OpId id : step)
        if (auto *u = ir::as<ir::Update>(p.ops[id]); u && why.count(u->w)) {
            p.parameters[u->w].deferred = true;
            p.ops[id].placed = "at forward", p.ops[id].why = why.at(u->w);
            updates[u->w].push_back(id);
            for (ir::Line &l : p.lines)
                if (defers(l) && l.stage.parameter == u->w) l.met(id);
            flush.ops.push_back(p.ops.add(p.ops[id]));
        }
    std::erase_if(step, [&](OpId id) {
        return ir::is<ir::Update>(p.ops[id]) && p.parameters[ir::parameter_of(p.ops[id])].deferred;
    });
    auto take = [&](ParamId w) {
        if (auto u = updates.find(w); u != updates.end()) {
            deferred.ops.insert(deferred.ops.end(), u->second.begin(), u->second.end());
            updates.erase(u);
        }
    };
    for (OpId id : ops_of(p, entry::forward)) {
        for (ParamId w : p.layer(*ir::call_of(p.ops[id])).parameters) take(w);
        deferred.ops.push_back(p.ops.add(p.ops[id]));
    }
    // The rest are parameters that only the head uses, where its chunks run in the backward pass.
    for (ParamId w : p.parameters.ids()) take(w);
    for (ir::Entry *e : {&deferred, &flush}) number_versions(p, *e);
    p.entries[entry::deferred] = deferred, p.entries[entry::flush] = flush;
    number_versions(p, p.entries.at(entry::step));
}

}  // namespace cryolite::compiler
