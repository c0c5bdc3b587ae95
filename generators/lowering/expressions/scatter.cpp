#include "generators/lowering/expressions/scatter.h"

namespace cryolite::compiler {

using namespace Halide;

bool is_scatter(const Func &f, const Layout &layout) {
    if (f.outputs() != 1 || f.num_update_definitions() != 1 || !Internal::is_const_zero(f.value())) return false;
    const Internal::Definition &update = f.function().update(0);
    std::vector<int> places;
    for (int d = 0; d < int(update.args().size()); d++)
        if (!update.args()[size_t(d)].as<Internal::Variable>()) places.push_back(d);
    return places.size() == 1 && (layout.row_major() || places[0] == layout.dim) &&
           update.schedule().rvars().size() == 1 && Internal::is_const_one(update.predicate());
}

namespace {

/// Replaces reads of `from` by reads of `to` at these indices.
class RedirectTo : public Internal::IRMutator {
public:
    RedirectTo(const std::string &from, const Func &to, const std::vector<Expr> &at) : from(from), to(to), at(at) {}

private:
    const std::string from;
    const Func &to;
    const std::vector<Expr> &at;
    using IRMutator::visit;
    Expr visit(const Internal::Call *op) override {
        if (op->name != from || op->call_type != Internal::Call::Halide) return IRMutator::visit(op);
        return to(at);
    }
};

}  // namespace

Func scatter_into_storage(const Func &f, const Layout &layout, std::vector<Var> v, bool accumulate) {
    Func out("scattered");
    std::vector<Expr> at = layout.to_storage(f.update_args(0));
    // A pure variable of the update must have the name that its dimension has in the pure definition.
    for (size_t d = 0; d < at.size(); d++)
        if (const auto *pure = at[d].as<Internal::Variable>()) v[d] = Var(pure->name);
    out(v) = accumulate ? undef(f.type()) : cast(f.type(), 0);
    Expr sum = RedirectTo(f.name(), out, at).mutate(f.update_value(0));
    out(at) = sum;
    return out;
}

Func scatter_into_panels(const Func &f, const Layout &layout, std::vector<Var> v, const Expr &start) {
    Func out("in_panel");
    const Internal::ReductionVariable old = f.function().update(0).schedule().rvars()[0];
    RDom m(old.min, old.extent, "m");
    auto renamed = [&](const Expr &e) { return Internal::substitute(old.var, m, e); };
    std::vector<Expr> at = f.update_args(0);
    Expr row = renamed(at[size_t(layout.dim)]);
    out(v) = start;
    // The other dimensions are pure. Their variables get the names that they have in the storage.
    for (size_t d = 0, place = 1; d < at.size(); d++)
        if (int(d) != layout.dim) at[d] = v[place++];
    Expr value = f.update_value(0);
    for (size_t d = 0; d < at.size(); d++)
        if (int(d) != layout.dim)
            value = Internal::substitute(f.update_args(0)[d].as<Internal::Variable>()->name, at[d], value);
    // Few panels have any rows. This test depends on the panel alone, so it stays outside of the loops over its tiles.
    Func any("any_row");
    any(v.back()) = cast<bool>(false);
    RDom k(old.min, old.extent, "k");
    any(v.back()) = any(v.back()) ||
                    Internal::substitute(old.var, k, f.update_args(0)[size_t(layout.dim)]) / layout.panel == v.back();
    m.where(any(v.back()) && row / layout.panel == v.back());
    at[size_t(layout.dim)] = row;
    std::vector<Expr> to = layout.to_storage(at);
    to.back() = v.back();
    out(to) = RedirectTo(f.name(), out, to).mutate(renamed(value));
    return out;
}

}  // namespace cryolite::compiler
