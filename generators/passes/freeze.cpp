// Parameters that are not trained: those that the model freezes, and those whose names the command's patterns match.

#include <fnmatch.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

/// Edits that make a name match a pattern; what stands for a '*' costs nothing.
size_t edits(const std::string &pattern, const std::string &name) {
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j < row.size(); j++) row[j] = j;
    for (const char c : pattern) {
        size_t diagonal = row[0];
        row[0] += c != '*';
        for (size_t j = 1; j < row.size(); j++) {
            const size_t above = row[j];
            row[j] = c == '*' ? std::min(above, row[j - 1])
                              : std::min({diagonal + (c != '?' && c != name[j - 1]), above + 1, row[j - 1] + 1});
            diagonal = above;
        }
    }
    return row.back();
}

/// The names that a pattern may have meant, the nearest first.
std::vector<std::string> near(const StepProgram &p, const std::string &pattern) {
    std::vector<std::pair<size_t, std::string>> list;
    for (const ir::Parameter &w : p.parameters) list.push_back({edits(pattern, w.path), w.path});
    std::ranges::stable_sort(list, {}, &std::pair<size_t, std::string>::first);
    std::vector<std::string> names;
    for (size_t i = 0; i < list.size() && i < 3; i++) names.push_back(list[i].second);
    return names;
}

void freeze_one(StepProgram &p, ParamId w, const std::string &source) {
    if (!p.parameters[w].trained()) return;
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
                            fmt::join(near(p, pattern), ", ")));
    }
    if (p.trained().empty() && p.parameters.size() > 0)
        throw UsageError(fmt::format("all {} parameters are frozen, and nothing is left to train: freeze fewer",
                                     p.parameters.size()));
    for (ir::Line &l : p.lines) check_trained(p, l);
}

}  // namespace cryolite::compiler
