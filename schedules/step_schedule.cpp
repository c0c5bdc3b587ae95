#include "schedules/step_schedule.h"

namespace cryolite {

std::string Stage::str() const {
    switch (kind) {
    case value: return layer->path;
    case adjoint: return "d(" + layer->path + ")";
    case gradient: return "d(" + parameter->path() + ")";
    case pass: return "forward";
    case gradients: return "d(net)";
    case next: return "next(" + parameter->path() + ")";
    }
    return "?";
}

std::string Placement::line() const {
    switch (how) {
    case root: return ".compute_root()";
    case at: return ".compute_at(" + target.str() + (rows ? ", " + std::to_string(rows) : "") + ")";
    case with: return ".compute_with(" + target.str() + ")";
    }
    return "?";
}

void Step::Line::store_at(const Stage &pass) {
    if (stage.kind != Stage::value)
        fail("s({}).store_at({}) is refused: only a layer's output is saved for the backward pass; the nearest legal line is "
             "s({}).compute_root()", stage.str(), pass.str(), stage.str());
    if (pass != forward)
        fail("s({}).store_at({}) is refused: it would be stored as long as that is; the nearest legal line is "
             "s({}).store_at(forward)", stage.str(), pass.str(), stage.str());
    step.rebuilt.insert(stage.layer);
}

void Step::Line::distribute(Workers) {
    if (stage.kind != Stage::gradients)
        fail("s({}).distribute(workers) is refused: workers share parameters, so the gradients of all of them are added; the "
             "nearest legal line is s(d(net)).distribute(workers)", stage.str());
    step.distributed = true;
}

void Step::Line::dialect(const DialectName &d) {
    for (auto &[s, old] : step.dialects)
        if (s == stage) return void(old = d.name);
    step.dialects.push_back({stage, d.name});
}

void Step::Line::place(const Placement &p) {
    if (stage.kind == Stage::gradients)
        fail("s(d(net)){} is refused: gradients are placed one by one, s(d(w)){}; the nearest legal line is "
             "s(d(net)).distribute(workers)", p.line(), p.line());
    for (auto &[s, old] : step.placements)
        if (s == stage) return void(old = p);
    step.placements.push_back({stage, p});
}

}  // namespace cryolite
