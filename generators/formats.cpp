#include "generators/formats.h"

#include <algorithm>

namespace cryolite::compiler {

namespace {

const Halide::Type single = Halide::Float(32), half = Halide::BFloat(16);

std::vector<const Graph::Call *> readers(const StepProgram &p, int value) {
    std::vector<const Graph::Call *> list;
    for (const Graph::Call &c : p.graph.calls())
        for (int x : c.inputs)
            if (x == value) list.push_back(&c);
    return list;
}

bool may_be_half(const StepProgram &p, int value) {
    const Graph::Value &v = p.graph.values()[value];
    return v.producer >= 0 && p.graph.calls()[v.producer].layer->casts_in(p.format).output;
}

}  // namespace

Halide::Type value_format(const StepProgram &p, int value) {
    const Graph::Value &v = p.graph.values()[value];
    const auto list = readers(p, value);
    bool all = may_be_half(p, value) && !list.empty();
    for (const Graph::Call *c : list) all &= c->layer->casts_in(p.format).inputs;
    return all ? half : v.type;
}

Halide::Type adjoint_format(const StepProgram &p, int value) {
    return may_be_half(p, value) && readers(p, value).size() == 1 ? half : single;
}

bool in_halves(const StepProgram &p, const Parameter &w) {
    if (w.shape().rank() != 2) return false;
    for (const Graph::Call &c : p.graph.calls()) {
        const auto &own = c.layer->parameters();
        if (c.layer->casts_in(p.format).products && std::count(own.begin(), own.end(), &w)) return true;
    }
    return false;
}

}  // namespace cryolite::compiler
