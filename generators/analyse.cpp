// Which buffers a stage really reads: a gradient is offered all that its layer's call saw, and uses some of it.

#include <algorithm>
#include <numeric>
#include <nlohmann/json.hpp>

#include "generators/child.h"
#include "generators/kernel_builder.h"
#include "generators/partition.h"
#include "generators/phase.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

/// Stages with equal signatures read the same places of what they are offered: the type of their layer and
/// the shapes of its call decide.
std::string signature(const StepProgram &p, const StageSpec &s) {
    // The index of a norm is its place among all norms, which says nothing of what it reads.
    const std::string index = s.part == Part::norm ? s.parameter->name() : std::to_string(s.index);
    std::string text = fmt::format("{} {} {} {}", int(s.part), index, s.accumulate, s.addends.size());
    if (s.of_weight) text += " of weight";
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

void analyse(StepProgram &p, const Machine &m, int jobs, int time_limit, KnownReads &known) {
    std::map<std::string, std::vector<int>> alike;
    for (int s = 0; s < int(p.stages.size()); s++) alike[signature(p, p.stages[s])].push_back(s);
    std::vector<std::pair<std::string, int>> unknown;
    for (auto &[text, list] : alike)
        if (!known.count(text)) unknown.push_back({text, list[0]});
    auto kernel_of = [&](int u) { return Kernel{p.stages[unknown[u].second].name, "", {unknown[u].second}}; };
    Phase phase("reading the layers", int(unknown.size()));
    // Several in one child, because to start and end it costs more than most stages; a child that failed did so at one of
    // them, which is found by reading each of them alone.
    auto read = [&](const std::vector<int> &list, int most, int limit) {
        std::vector<int> failed;
        auto begin = [&](int slice) { return list.begin() + slice * most; };
        auto end = [&](int slice) { return list.begin() + std::min(int(list.size()), (slice + 1) * most); };
        auto work = [&](int slice) {
            json all = json::array();
            for (auto u = begin(slice); u != end(slice); ++u) {
                all.push_back(json::array());
                for (const KernelArgument &a : build_kernel(p, kernel_of(*u), m, false).arguments)
                    if (!a.written) all.back().push_back(a.buffer);
            }
            return all.dump();
        };
        run_children((int(list.size()) + most - 1) / most, jobs, limit, work, [&](int slice, const ChildResult &r) {
            if (!r.error.empty() && most > 1) return void(failed.insert(failed.end(), begin(slice), end(slice)));
            if (!r.error.empty()) fail("'{}': {}", kernel_of(*begin(slice)).name, r.error);
            const json all = json::parse(r.output);
            for (auto u = begin(slice); u != end(slice); ++u) {
                phase.step();
                const std::vector<int> used = all[size_t(u - begin(slice))];
                for (int b : stage_reads(p, p.stages[unknown[*u].second]))
                    known[unknown[*u].first].push_back(std::ranges::count(used, b) > 0);
            }
        });
        return failed;
    };
    std::vector<int> all(unknown.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<int> again = read(all, 8, std::max(1, time_limit / 4));
    // One after the other in the order of the step, so that of several mistakes the same is named every time.
    std::ranges::sort(again, {}, [&](int u) { return unknown[u].second; });
    jobs = 1;
    read(again, 1, time_limit);
    for (auto &[text, list] : alike)
        for (int s : list) {
            const std::vector<int> offered = stage_reads(p, p.stages[s]);
            const std::vector<bool> &reads = known[text];
            for (size_t i = 0; i < offered.size(); i++)
                if (reads[i]) p.stages[s].reads.push_back(offered[i]);
        }
    for (StageSpec &s : p.stages) {
        s.analysed = true;
        // What it adds to is read in place, as an output.
        if (s.part == Part::d_parameter && s.accumulate) s.reads.push_back(s.writes[0]);
        // Its own share among those of the workers.
        if (s.part == Part::next && p.share_buffers.count(s.parameter)) s.reads.push_back(p.gradient_buffer.at(s.parameter));
    }
}

}  // namespace cryolite::compiler
