#include "generators/lowering/computed_nature.h"

#include <algorithm>
#include <sstream>

#include "generators/lowering/kernel/kernel_values.h"

namespace cryolite::compiler {

using namespace Halide;
using namespace Halide::Internal;

namespace {

std::string words(const std::vector<Expr> &at) {
    std::ostringstream text;
    for (size_t k = 0; k < at.size(); k++) text << (k ? ", " : "") << at[k];
    return "(" + text.str() + ")";
}

struct Read {
    std::string name;  ///< as messages have it
    Array array;
    bool is_given;  ///< an input of the model: no other kernel makes it
};

/// Follows a result through its Funcs to the arrays that it reads. Indices are expressions of the result's own index.
class Places {
public:
    Places(const std::vector<Read> &read, const Func &result, const Shape &shape) : read(read), shape(shape) {
        for (int d = 0; d < result.dimensions(); d++) {
            own.emplace_back(result.args()[size_t(d)]);
            bounds.push(result.args()[size_t(d)].name(), Interval(0, shape[d] - 1));
        }
        visit(result.function(), own);
    }
    ComputedNature found{.nature = Nature::pointwise};

private:
    const std::vector<Read> &read;
    const Shape &shape;     ///< of the result
    std::vector<Expr> own;  ///< the result's index
    Scope<Interval> bounds;
    std::set<std::string> seen;

    class Calls : public IRVisitor {
    public:
        std::vector<const Internal::Call *> list;

    private:
        using IRVisitor::visit;
        void visit(const Internal::Call *op) override {
            if (op->call_type == Internal::Call::Halide) list.push_back(op);
            IRVisitor::visit(op);
        }
    };

    void needs(Nature n, const std::string &what, const std::vector<Expr> &at) {
        if (found.nature == Nature::anchor || n == found.nature) return;
        found.nature = n;
        found.witness = fmt::format("element {} of its result reads {} at {}", words(own), what, words(at));
    }
    bool equal(const Expr &a, const Expr &b) const { return is_const_zero(simplify(a - b, true, bounds)); }

    void visit(const Function &f, const std::vector<Expr> &at) {
        if (!seen.insert(f.name() + words(at)).second) return;
        if (f.has_extern_definition()) return needs(Nature::anchor, fmt::format("the extern stage '{}'", f.name()), at);
        // A sum that makes more than one number for each row has no known loops, so only a declaration counts.
        found.is_declared_only |= f.has_update_definition() && f.args().size() > 1;
        if (f.has_pure_definition()) visit(f, f.definition(), at);
        for (const Definition &d : f.updates()) visit(f, d, at);
    }
    void visit(const Function &f, const Definition &d, const std::vector<Expr> &at) {
        std::map<std::string, Expr> place;
        for (size_t k = 0; k < at.size(); k++)
            if (const auto *v = d.args()[k].as<Variable>(); v && v->name == f.args()[k]) place[v->name] = at[k];
        std::vector<Expr> all = d.values();
        all.insert(all.end(), d.args().begin(), d.args().end());
        all.push_back(d.predicate());
        for (const Expr &e : all) {
            const Expr here = substitute(place, substitute_in_all_lets(e));
            Calls calls;
            here.accept(&calls);
            for (const Internal::Call *c : calls.list) visit(f, at, *c);
        }
    }
    void visit(const Function &f, const std::vector<Expr> &at, const Internal::Call &c) {
        const auto array = std::ranges::find_if(read, [&](const Read &r) { return r.array.name() == c.name; });
        if (array != read.end()) return visit(*array, c.args);
        if (!c.func.defined()) return;
        if (c.name != f.name()) return visit(Function(c.func), c.args);
        for (size_t k = 0; k < at.size(); k++)  // a scan reads itself elsewhere
            if (!equal(c.args[k], at[k]))
                needs(k == 0 ? Nature::rowwise : Nature::anchor, fmt::format("'{}'", f.name()), c.args);
    }
    void visit(const Read &r, const std::vector<Expr> &at) {
        const Shape &extents = r.array.shape;
        if (extents.extents() != shape.extents()) return visit_other(r, at);
        for (size_t k = at.size(); k-- > 0;)
            if (extents[int(k)] > 1 && !equal(at[k], own[k]))
                needs(k == 0 ? Nature::rowwise : Nature::anchor, r.name, at);
    }
    /// An array of another shape: numbers that all elements share, or all elements of a row, or a mask.
    void visit_other(const Read &r, const std::vector<Expr> &at) {
        for (size_t k = 0; k < at.size(); k++) {
            const bool depends =
                std::ranges::any_of(own, [&](const Expr &v) { return expr_uses_var(at[k], v.as<Variable>()->name); });
            if (r.array.shape[int(k)] == 1 || !depends) continue;
            found.is_declared_only = true;
            if (!r.is_given && !std::ranges::any_of(own, [&](const Expr &v) { return equal(at[k], v); }))
                needs(Nature::anchor, r.name, at);
        }
    }
};

}  // namespace

ComputedNature computed_nature(const StepProgram &p, const ir::Kernel &k) {
    KernelValues values(p, k);
    const ir::Op &op = p.ops[k.ops.at(0)];
    const ValueId result = op.writes.at(0).value;
    const Func *made = nullptr;
    for (const auto &[of, f] : values.defined)
        if (of == &op) made = &f;
    if (!made) fail("'{}' has no Func", op.name);
    std::vector<Read> read;
    for (const auto &[v, a] : values.in.arrays) {
        if (v == result || p.values[v].parameter) continue;
        const bool is_given = p.values[v].role == ir::Role::input;
        read.push_back({"'" + p.values[v].name + "'", a, is_given});
        if (a.half) read.push_back({"'" + p.values[v].name + "'", Array(*a.half, a.shape), is_given});
    }
    return Places(read, *made, p.values[result].shape.folded(values.in.rank(result))).found;
}

}  // namespace cryolite::compiler
