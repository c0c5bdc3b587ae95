#include "generators/scatter.h"

namespace cryolite {

using namespace Halide;

bool is_scatter(const Func &f) {
    if (f.num_update_definitions() != 1) return false;
    for (const Expr &at : f.update_args(0))
        if (!at.as<Internal::Variable>()) return true;
    return false;
}

namespace {

/// Replaces reads of `from` by reads of `to` at storage indices.
class Redirect : public Internal::IRMutator {
public:
    Redirect(const std::string &from, const Func &to, const Layout &layout)
        : from(from), to(to), layout(layout) {}

private:
    const std::string from;
    const Func &to;
    const Layout &layout;
    using IRMutator::visit;
    Expr visit(const Internal::Call *op) override {
        if (op->name != from || op->call_type != Internal::Call::Halide) return IRMutator::visit(op);
        return to(layout.to_storage(op->args));
    }
};

}  // namespace

Func scatter_into_storage(const Func &f, const Layout &layout, std::vector<Var> v, bool accumulate) {
    Func out("scattered");
    std::vector<Expr> at = layout.to_storage(f.update_args(0));
    // A pure variable of the update must have the name that its place has in the pure definition.
    for (size_t d = 0; d < at.size(); d++)
        if (const auto *pure = at[d].as<Internal::Variable>()) v[d] = Var(pure->name);
    out(v) = accumulate ? undef(f.type()) : cast(f.type(), 0);
    Expr sum = Redirect(f.name(), out, layout).mutate(f.update_value(0));
    out(at) = sum;
    return out;
}

}  // namespace cryolite
