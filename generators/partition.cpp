// Which stages share a kernel: defaults, then the lines of the step schedule, each proved legal or refused.

#include <algorithm>

#include "generators/dialects.h"
#include "generators/joining.h"

namespace cryolite::compiler {

Nature stage_nature(const StepProgram &p, const StageSpec &s) {
    switch (s.part) {
    case Part::forward: return p.graph.calls()[s.call].layer->nature();
    case Part::d_input: return p.graph.calls()[s.call].layer->nature();
    case Part::d_parameter:
    case Part::norm: return Nature::anchor;
    default: return Nature::pointwise;
    }
}

std::vector<int> stage_reads(const StepProgram &p, const StageSpec &s) {
    if (s.analysed) return s.reads;
    std::vector<int> reads = s.addends;
    if (s.call >= 0) {
        const Graph::Call &c = p.graph.calls()[s.call];
        for (int v : c.inputs) reads.push_back(p.seen(s, v));
        for (const Parameter *w : c.layer->parameters()) {
            reads.push_back(p.parameter_buffer.at(w));
            if (auto lower = p.remainder_buffer.find(w); lower != p.remainder_buffer.end()) reads.push_back(lower->second);
        }
        if (s.part != Part::forward) reads.push_back(p.seen(s, c.output));
    }
    if (s.dy >= 0) reads.push_back(s.dy);
    if (s.part == Part::d_parameter && s.accumulate) reads.push_back(s.writes[0]);
    if (s.call2 >= 0) {
        for (int v : p.graph.calls()[s.call2].inputs) reads.push_back(p.seen(s, v));
        reads.push_back(s.dy2);
    }
    if (s.part == Part::norm && s.of_weight) {
        reads.push_back(p.parameter_buffer.at(s.parameter));
        if (auto lower = p.remainder_buffer.find(s.parameter); lower != p.remainder_buffer.end()) reads.push_back(lower->second);
    } else if (s.part == Part::next || (s.part == Part::norm && !ghost(s))) {
        reads.push_back(p.gradient_buffer.at(s.parameter));
    }
    if (s.part == Part::next && !p.optimizer->norms().empty()) reads.push_back(p.norms);
    if (auto shares = p.share_buffers.find(s.parameter); s.part == Part::next && shares != p.share_buffers.end())
        reads.insert(reads.end(), shares->second.begin(), shares->second.end());
    if (s.part == Part::next) reads.push_back(p.scalars);
    if (s.part == Part::next && (s.scaled || p.guarded())) reads.push_back(p.scale);
    if (s.part == Part::next && p.guarded()) reads.push_back(p.count);
    if (s.part == Part::scale) reads.push_back(p.norms);
    return reads;
}

namespace {

/// Moves the updates that are placed at forward from the step to the next forward pass ("lazy"), each before its
/// first use; "flush" does them alone.
void move_lazy_updates(StepProgram &p, const StepOptions &options) {
    std::map<const Parameter *, std::string> why;
    if (options.update == "forward")
        for (auto &[w, id] : p.parameter_buffer) why[w] = "--update forward";
    for (auto &[stage, where] : p.schedule->placements) {
        if (stage.kind != Stage::next && stage.kind != Stage::gradient) continue;
        why.erase(stage.parameter);
    }
    for (auto &[stage, where] : p.schedule->placements)
        if (stage.kind == Stage::next && where.how == Placement::at && where.target == forward)
            why[stage.parameter] = "a line of the step schedule";
    if (why.empty()) return;
    std::map<const Parameter *, std::vector<int>> update;  // kernels, one of each stage so far
    auto &step = p.plans["step"];
    for (int k : step)
        if (StageSpec &s = p.stages[p.kernels[k].stages[0]]; s.part == Part::next && why.count(s.parameter)) {
            update[s.parameter].push_back(k), p.lazy.insert(s.parameter);
            s.placed = "at forward", s.why = why[s.parameter];
            p.plans["flush"].push_back(k);
        }
    step.erase(std::remove_if(step.begin(), step.end(),
                              [&](int k) { return p.lazy.count(p.stages[p.kernels[k].stages[0]].parameter) &&
                                                  p.stages[p.kernels[k].stages[0]].part == Part::next; }),
               step.end());
    auto &line = p.plans["lazy"];
    for (int k : std::vector<int>(p.plans["forward"])) {
        for (const Parameter *w : p.graph.calls()[p.stages[p.kernels[k].stages[0]].call].layer->parameters())
            if (auto u = update.find(w); u != update.end()) {
                line.insert(line.end(), u->second.begin(), u->second.end());
                update.erase(u);
            }
        line.push_back(k);
    }
    // What the head alone uses, where its blocks come with the backward pass.
    for (auto &[w, kernels] : update) line.insert(line.end(), kernels.begin(), kernels.end());
}

/// What was to be built again and is read by nobody: gradients are offered more than they read.
void drop_unread(StepProgram &p, std::vector<int> &plan) {
    std::set<int> read;
    for (auto k = plan.end(); k != plan.begin();) {
        const StageSpec &s = p.stages[p.kernels[*--k].stages[0]];
        if (s.again && !read.count(s.writes[0])) {
            k = plan.erase(k);
            continue;
        }
        for (int b : stage_reads(p, s)) read.insert(p.base(b));
    }
}

}  // namespace

void partition(StepProgram &p, const StepOptions &options) {
    for (auto &[name, plan] : p.plans) drop_unread(p, plan);
    move_lazy_updates(p, options);
    std::vector<std::string> names;
    for (auto &[name, kernels] : p.plans) names.push_back(name);
    const size_t separate = p.kernels.size();
    std::vector<bool> concerned(p.schedule->placements.size());
    for (const std::string &name : names) {
        Joining part(p, options, name);
        part.defaults();
        for (size_t i = 0; i < concerned.size(); i++)
            if (part.apply(p.schedule->placements[i].first, p.schedule->placements[i].second)) concerned[i] = true;
        part.finish();
    }
    for (size_t i = 0; i < concerned.size(); i++)
        if (auto &[stage, where] = p.schedule->placements[i]; !concerned[i])
            refuse(stage, where, "neither of the two reads the other", ".compute_root()");
    // Only the joined kernels stay.
    p.kernels.erase(p.kernels.begin(), p.kernels.begin() + long(separate));
    for (auto &[name, kernels] : p.plans)
        for (int &k : kernels) k -= int(separate);
    choose_dialects(p, options);
}

}  // namespace cryolite::compiler
