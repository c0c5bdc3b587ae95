#include "schedules/step_schedule.h"

#include <algorithm>

namespace cryolite {

Stage Stage::operator[](int n) const {
    if ((kind != value && kind != adjoint) || n < 1)
        fail("{}[{}] is no stage: only the output of a layer and its adjoint have calls, numbered from 1", str(), n);
    Stage s = *this;
    s.call = n;
    return s;
}

std::string Stage::str() const {
    const std::string of_call = call ? fmt::format("[{}]", call) : "";
    switch (kind) {
    case value:
        return layer->path + of_call;
    case adjoint:
        return "d(" + layer->path + of_call + ")";
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
    const std::string end = where_legal ? ".where_legal()" : "";
    switch (how) {
    case root:
        return ".compute_root()" + end;
    case at:
        return ".compute_at(" + target.str() + (rows ? ", " + std::to_string(rows) : "") + ")" + end;
    case with:
        return ".compute_with(" + target.str() + ")" + end;
    }
    return "?";
}

Step::Line &Step::Line::store_at(const Stage &pass) {
    if (stage.kind != Stage::value)
        fail("s({}).store_at({}) is refused: only a layer's output is saved for the backward pass; the nearest legal "
             "line is "
             "s({}).compute_root()",
             stage.str(), pass.str(), stage.str());
    if (stage.call)
        fail(
            "s({}).store_at({}) is refused: a layer is rematerialised with all of its calls; the nearest legal line is "
            "s({}).store_at(forward)",
            stage.str(), pass.str(), stage.layer->path);
    if (pass != forward)
        fail("s({}).store_at({}) is refused: store_at names the pass for which the output is stored, and that can only "
             "be forward; the nearest legal line is "
             "s({}).store_at(forward)",
             stage.str(), pass.str(), stage.str());
    auto asked = std::ranges::find(step.rematerialised, stage, &Step::Asked::stage);
    if (asked == step.rematerialised.end()) asked = step.rematerialised.insert(asked, {stage, "", source});
    return said(asked->where_legal);
}

Step::Line &Step::Line::distribute(Workers) {
    if (stage.kind != Stage::gradients)
        fail("s({}).distribute(workers) is refused: the workers share all parameters, so the gradients of the whole "
             "model are added; the "
             "nearest legal line is s(d(net)).distribute(workers)",
             stage.str());
    step.distributed = {{stage, "", source}};
    return said(step.distributed.back().where_legal);
}

Step::Line &Step::Line::dialect(const DialectName &d) {
    std::erase_if(step.dialects, [&](const Step::Asked &old) { return old.stage == stage; });
    step.dialects.push_back({stage, d.name, source});
    return said(step.dialects.back().where_legal);
}

void Step::Line::where_legal() {
    if (!said_)
        fail("s({}).where_legal() places nothing: write it at the end of a line, as in "
             "s({}).compute_root().where_legal()",
             stage.str(), stage.str());
    *said_ = true;
}

Step::Line &Step::Line::place(Placement p) {
    p.source = source;
    if (stage.kind == Stage::gradients)
        fail("s(d(net)){} is refused: gradients are placed one by one, s(d(w)){}; the nearest legal line is "
             "s(d(net)).distribute(workers)",
             p.line(), p.line());
    for (auto &[s, old] : step.placements)
        if (s == stage) {
            old = p;
            return said(old.where_legal);
        }
    step.placements.push_back({stage, p});
    return said(step.placements.back().second.where_legal);
}

void Step::tune(const LoopValue &v) {
    for (LoopValue &old : loop_values)
        if (old.layer == v.layer && old.parameter == v.parameter && old.form == v.form && old.name == v.name)
            return void(old = v);
    loop_values.push_back(v);
}

bool Step::asks_for_automatic(const Layer &l, Form form) const {
    return std::ranges::any_of(loop_values, [&](const LoopValue &v) {
        return v.layer == &l && v.form == form && v.name == "automatic" && v.value != 0;
    });
}

void Step::clear() {
    placements.clear(), rematerialised.clear(), distributed.clear(), dialects.clear();
    layouts.clear(), loop_values.clear(), texts.clear();
    bytes_allowed = 0, chooses = false;
}

bool Step::empty() const {
    return placements.empty() && rematerialised.empty() && distributed.empty() && dialects.empty() && layouts.empty() &&
           loop_values.empty() && texts.empty() && bytes_allowed == 0;
}

void Step::layout(const Parameter &w, Layout l, const std::string &source) {
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
    else if (l.panel > widest_panel)
        why = fmt::format("a panel has at most {} elements", widest_panel), width = std::min(shape[dim], widest_panel);
    const std::string nearest = last < 0 ? "row_major()" : fmt::format("panels({}, {})", width, dim);
    if (!why.empty())
        fail("{}: s.layout({}, panels({}, {})) is refused: {}; the nearest legal line is s.layout({}, {})", source,
             w.path(), l.panel, l.dim, why, w.path(), nearest);
    layouts[&w] = {l, source};
}

}  // namespace cryolite
