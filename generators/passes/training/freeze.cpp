// Parameters that are not trained: those that the model freezes, and those whose names the command's patterns match.

#include <fnmatch.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "generators/passes/legality.h"
#include "generators/passes/near_names.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

void freeze_one(StepProgram &p, ParamId w, const std::string &source) {
    if (!p.parameters[w].trained()) return;  // frozen already, or a layer's state
    p.parameters[w].frozen = source;
    ir::Line line{.how = ir::Line::freeze, .source = source};
    line.stage = {.kind = ir::Stage::next, .parameter = w, .text = p.parameters[w].path};
    line.verdict.is = ir::Verdict::legal;
    p.lines.push_back(line);
}

/// Refuses lines about a gradient or an update that is not there.
void check_trained(const StepProgram &p, ir::Line &l) {
    if (l.how == ir::Line::freeze) return;
    for (ParamId w : {l.stage.parameter, l.target.parameter})
        if (w && !p.parameters[w].trained()) refuse(l, {rules::frozen, p.parameters[w].path, p.parameters[w].frozen});
}

}  // namespace

void freeze(StepProgram &p, const Context &cx) {
    for (ParamId w : p.parameters.ids())
        if (const std::string &where = p.source(w).frozen(); !where.empty()) freeze_one(p, w, where);
    for (const std::string &pattern : cx.options.freeze) {
        bool any = false;
        for (ParamId w : p.parameters.ids())
            if (fnmatch(pattern.c_str(), p.parameters[w].path.c_str(), 0) == 0)
                freeze_one(p, w, "--freeze " + pattern), any = true;
        if (!any)
            throw UsageError(
                fmt::format("--freeze {}: no parameter of the model has a name like that; the nearest are {}", pattern,
                            fmt::join(near_names(p, pattern), ", ")));
    }
    if (p.trained().empty() && p.parameters.size() > 0)
        throw UsageError(fmt::format("all {} parameters are frozen, and nothing is left to train: freeze fewer",
                                     p.parameters.size()));
    for (ir::Line &l : p.lines) obey(l, [&] { check_trained(p, l); });
}

}  // namespace cryolite::compiler
