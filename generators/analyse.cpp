// Which buffers a stage really reads: a gradient is offered all that its layer's call saw, and uses some of it.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generators/child.h"
#include "generators/kernel_builder.h"
#include "generators/partition.h"
#include "generators/phase.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// Stages with equal signatures read the same places of what they are offered: the type of their layer and
/// the shapes of its call decide.
std::string signature(const StepProgram &p, const StageSpec &s) {
    // The index of a norm is its place among all norms, which says nothing of what it reads.
    const std::string index = s.part == Part::norm ? s.parameter->name() : std::to_string(s.index);
    std::string text = fmt::format("{} {} {} {}", int(s.part), index, s.accumulate, s.addends.size());
    if (s.call2 >= 0)
        text += fmt::format(" {} {}{}{}", s.call == s.call2, typeid(*p.graph.calls()[s.call2].layer).name(),
                            p.graph.values()[p.graph.calls()[s.call2].inputs[0]].shape.str(), s.dy == s.dy2);
    auto format = [&](int b) { return p.buffers[b].type.bits(); };
    for (int b : s.addends) text += fmt::format(" {}", format(b));
    for (int b : s.writes) text += fmt::format(" {}", format(b));
    if (s.call < 0) return text + (s.parameter ? s.parameter->shape().str() : "");
    const Graph::Call &c = p.graph.calls()[s.call];
    text += fmt::format(" {} {}", typeid(*c.layer).name(), s.dy == p.scalars);
    for (int v : c.inputs) text += p.graph.values()[v].shape.str() + std::to_string(format(p.value_buffer[v]));
    text += fmt::format(" {} {} {}", c.layer->casts_in(p.format).products, format(p.value_buffer[c.output]),
                        s.dy >= 0 ? format(s.dy) : 0);
    for (const Parameter *w : c.layer->parameters()) text += w->name() + w->shape().str();
    return text;
}

}  // namespace

void analyse(StepProgram &p, const Machine &m, int jobs, int time_limit) {
    std::map<std::string, std::vector<int>> alike;
    for (int s = 0; s < int(p.stages.size()); s++) alike[signature(p, p.stages[s])].push_back(s);
    std::vector<std::vector<int>> groups;
    for (auto &[text, list] : alike) groups.push_back(list);
    auto kernel_of = [&](int g) {
        const StageSpec &s = p.stages[groups[g][0]];
        return Kernel{s.name, "", {groups[g][0]}};
    };
    auto work = [&](int g) {
        json reads = json::array();
        for (const KernelArgument &a : build_kernel(p, kernel_of(g), m, false).arguments)
            if (!a.written) reads.push_back(a.buffer);
        return reads.dump();
    };
    Phase phase("reading the layers", int(groups.size()));
    run_children(int(groups.size()), jobs, time_limit, work, [&](int g, const ChildResult &r) {
        phase.step();
        if (!r.error.empty()) fail("'{}': {}", kernel_of(g).name, r.error);
        std::vector<int> used = json::parse(r.output), offered = stage_reads(p, p.stages[groups[g][0]]);
        for (int s : groups[g]) {
            std::vector<int> own = stage_reads(p, p.stages[s]);
            for (size_t i = 0; i < own.size(); i++)
                if (std::find(used.begin(), used.end(), offered[i]) != used.end())
                    p.stages[s].reads.push_back(own[i]);
        }
    });
    for (StageSpec &s : p.stages) {
        s.analysed = true;
        // What it adds to is read in place, as an output.
        if (s.part == Part::d_parameter && s.accumulate) s.reads.push_back(s.writes[0]);
    }
}

}  // namespace cryolite
