#include "schedules/contraction.h"

#include <algorithm>

namespace cryolite {

using namespace Halide;
using namespace Halide::Internal;

namespace {

using Reading = Halide::Internal::Call;

/// The reads of one Func, or of all Funcs, in an expression.
class Readings : public IRVisitor {
public:
    explicit Readings(std::string of = "") : of(std::move(of)) {}
    std::vector<const Reading *> list;

private:
    const std::string of;
    using IRVisitor::visit;
    void visit(const Reading *op) override {
        if (op->call_type == Reading::Halide && (of.empty() || op->name == of)) list.push_back(op);
        IRVisitor::visit(op);
    }
};

bool at_variables(const Expr &e) {
    Readings all;
    e.accept(&all);
    return !all.list.empty() && std::ranges::all_of(all.list, [](const Reading *r) {
        return std::ranges::all_of(r->args, [](const Expr &a) { return a.as<Variable>() != nullptr; });
    });
}

/// The term e of f(i, j, ...) += e over reduction variables; undefined: `f` has another form.
Expr added(const Function &f) {
    if (f.updates().size() != 1 || f.outputs() != 1) return {};
    const Definition &d = f.update(0);
    if (!at_own_indices(f, d)) return {};
    const auto *sum = d.values()[0].as<Add>();
    if (!sum || !is_const_one(d.predicate()) || d.schedule().rvars().empty()) return {};
    Readings of_itself(f.name());
    sum->accept(&of_itself);
    if (of_itself.list.size() != 1) return {};
    const auto *own = sum->a.as<Reading>();
    if (own && own->name == f.name()) return sum->b;
    own = sum->b.as<Reading>();
    return own && own->name == f.name() ? sum->a : Expr();
}

/// Whether the anchor is the only Func of the kernel that adds something up, and `out` is another Func.
bool adds_alone(const Group &g) {
    if (!g.others.empty() || !g.anchor.defined() || !g.prologue.empty() || g.out.name() == g.anchor.name() ||
        g.anchor.dimensions() != int(g.extents.size()))
        return false;
    return std::ranges::all_of(
        g.funcs(), [&](const Func &f) { return f.name() == g.anchor.name() || !f.has_update_definition(); });
}

}  // namespace

std::vector<const Reading *> reads_of(const Func &reader, const Func &f) {
    Readings reads(f.name());
    reader.function().accept(&reads);
    return reads.list;
}

std::vector<const Reading *> reads_of(const Definition &reader, const Func &f) {
    Readings reads(f.name());
    reader.accept(&reads);
    return reads.list;
}

bool is_contraction(const Group &g) {
    if (!adds_alone(g) || g.in_place || g.out.has_update_definition() || g.extents.size() < 2) return false;
    const Expr term = added(g.anchor.function());
    const auto *product = term.defined() ? term.as<Mul>() : nullptr;
    return product && at_variables(product->a) && at_variables(product->b);
}

bool adds_rows(const Group &g) {
    if (!adds_alone(g) || g.extents.size() != 1) return false;
    const Expr term = added(g.anchor.function());
    const auto *row = term.defined() ? term.as<Reading>() : nullptr;
    const auto *first = row && !row->args.empty() ? row->args[0].as<Variable>() : nullptr;
    return row && at_variables(term) && first && first->name == g.anchor.args()[0].name();
}

bool shown_elsewhere(const Group &g) {
    std::vector<Func> all = g.funcs();
    all.push_back(g.out);
    for (const Func &f : all)
        for (const Reading *r : f.name() == g.anchor.name() ? std::vector<const Reading *>() : reads_of(f, g.anchor))
            for (size_t k = 0; k < r->args.size(); k++)
                if (const auto *v = r->args[k].as<Variable>(); !v || v->name != f.args()[k].name()) return true;
    return false;
}

}  // namespace cryolite
