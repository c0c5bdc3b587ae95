#include "schedules/regions.h"

namespace cryolite {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Func;

namespace {

/// Adds what a definition reads to `boxes`.
void add_reads(const Function &f, const Definition &d, std::map<std::string, Box> &boxes) {
    for (auto &[name, box] : boxes_required(statement_of(f, d), scope_of(domain_of(f, d, boxes[f.name()])))) {
        const auto [at, fresh] = boxes.emplace(name, box);
        if (!fresh) merge_boxes(at->second, box);
    }
}

std::optional<Extents> extents_of(const Box &box) {
    Extents extents;
    for (size_t k = 0; k < box.size(); k++) {
        if (!box[k].is_bounded()) return std::nullopt;
        const auto extent = as_const_int(simplify(box[k].max - box[k].min + 1));
        if (!extent || *extent < 1) return std::nullopt;
        extents.push_back(int(*extent));
    }
    return extents;
}

}  // namespace

Domain domain_of(const Function &f, const Definition &d, const Box &region) {
    Domain all;
    for (size_t k = 0; k < d.args().size(); k++)
        if (const auto *v = d.args()[k].as<Variable>(); v && v->name == f.args()[k])
            all[v->name] = k < region.size() ? region[k] : Interval::everything();
    for (const ReductionVariable &r : d.schedule().rvars())
        all[r.var] = Interval(simplify(r.min), simplify(r.min + r.extent - 1));
    return all;
}

Scope<Interval> scope_of(const Domain &domain) {
    Scope<Interval> scope;
    for (auto &[name, interval] : domain) scope.push(name, interval);
    return scope;
}

Stmt statement_of(const Function &f, const Definition &d) {
    Stmt s = Provide::make(f.name(), d.values(), d.args(), const_true());
    return is_const_one(d.predicate()) ? s : IfThenElse::make(d.predicate(), s);
}

int64_t volume(const Extents &extents) {
    int64_t product = 1;
    for (int e : extents) product *= e;
    return product;
}

std::optional<std::map<std::string, Extents>> needed(const Group &g, const Extents &asked) {
    std::map<std::string, Box> boxes;
    for (size_t d = 0; d < asked.size(); d++)
        boxes[g.out.name()].push_back(Interval(g.extents.at(d) - asked[d], g.extents[d] - 1));
    for (const Func &f : g.others)
        for (const Bound &b : f.function().schedule().estimates())
            boxes[f.name()].push_back(Interval(b.min, simplify(b.min + b.extent - 1)));
    std::vector<Func> order = g.funcs();
    order.insert(order.end(), g.others.begin(), g.others.end());
    order.push_back(g.out);
    std::map<std::string, Extents> result;
    for (auto f = order.rbegin(); f != order.rend(); ++f) {
        const Function &function = f->function();
        // The last update first, because it may read more of its own Func than the consumers do.
        for (int u = int(function.updates().size()); u-- > 0;) add_reads(function, function.update(u), boxes);
        if (function.has_pure_definition()) add_reads(function, function.definition(), boxes);
        const auto extents = extents_of(boxes[f->name()]);
        if (!extents || int(extents->size()) != f->dimensions()) return std::nullopt;
        result[f->name()] = *extents;
    }
    return result;
}

}  // namespace cryolite
