#include "schedules/step_schedule.h"

#include <algorithm>

namespace cryolite {

std::string Stage::str() const {
    switch (kind) {
    case value:
        return layer->path;
    case adjoint:
        return "d(" + layer->path + ")";
    case gradient:
        return "d(" + parameter->path() + ")";
    case pass:
        return "forward";
    case gradients:
        return "d(net)";
    case next:
        return "next(" + parameter->path() + ")";
    }
    return "?";
}

std::string Placement::line() const {
    switch (how) {
    case root:
        return ".compute_root()";
    case at:
        return ".compute_at(" + target.str() + (rows ? ", " + std::to_string(rows) : "") + ")";
    case with:
        return ".compute_with(" + target.str() + ")";
    }
    return "?";
}

void Step::Line::store_at(const Stage &pass) {
    if (stage.kind != Stage::value)
        fail("s({}).store_at({}) is refused: only a layer's output is saved for the backward pass; the nearest legal "
             "line is "
             "s({}).compute_root()",
             stage.str(), pass.str(), stage.str());
    if (pass != forward)
        fail("s({}).store_at({}) is refused: it would be stored as long as that is; the nearest legal line is "
             "s({}).store_at(forward)",
             stage.str(), pass.str(), stage.str());
    if (std::ranges::find(step.rematerialised, stage, &Step::Asked::stage) == step.rematerialised.end())
        step.rematerialised.push_back({stage, "", source});
}

void Step::Line::distribute(Workers) {
    if (stage.kind != Stage::gradients)
        fail("s({}).distribute(workers) is refused: workers share parameters, so the gradients of all of them are "
             "added; the "
             "nearest legal line is s(d(net)).distribute(workers)",
             stage.str());
    step.distributed = {{stage, "", source}};
}

void Step::Line::dialect(const DialectName &d) {
    for (Step::Asked &old : step.dialects)
        if (old.stage == stage) return void(old = {stage, d.name, source});
    step.dialects.push_back({stage, d.name, source});
}

void Step::Line::place(Placement p) {
    p.source = source;
    if (stage.kind == Stage::gradients)
        fail("s(d(net)){} is refused: gradients are placed one by one, s(d(w)){}; the nearest legal line is "
             "s(d(net)).distribute(workers)",
             p.line(), p.line());
    for (auto &[s, old] : step.placements)
        if (s == stage) return void(old = p);
    step.placements.push_back({stage, p});
}

void Step::layout(const Parameter &w, Layout l) {
    constexpr int64_t most = (int64_t{1} << 31) - (1 << 20);  // kernels index elements with 32 bits
    const Shape &shape = w.shape();
    const int last = shape.rank() - 1, dim = last < 0 ? 0 : std::clamp(l.dim, 0, last);
    int width = l.panel;
    std::string why;
    if (l.panel < 0)
        why = "a panel has one element or more", width = 1;
    else if (!l.row_major() && last < 0)
        why = "the parameter is one number";
    else if (!l.row_major() && dim != l.dim)
        why = fmt::format("the parameter has shape {}, so its dimensions are 0 to {}", shape.str(), last);
    else if (const int64_t n = l.storage(shape).size(); n >= most)
        why = fmt::format("with its padding the parameter has {} elements, but a kernel's array has less than 2^31", n),
        width = shape[dim];
    const std::string nearest = last < 0 ? "row_major()" : fmt::format("panels({}, {})", width, dim);
    if (!why.empty())
        fail("s.layout({}, panels({}, {})) is refused: {}; the nearest legal line is s.layout({}, {})", w.path(),
             l.panel, l.dim, why, w.path(), nearest);
    layouts[&w] = l;
}

}  // namespace cryolite
