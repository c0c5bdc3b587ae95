#include "generators/lowering/sum_of_products.h"

#include <algorithm>

namespace cryolite::compiler {

using namespace Halide;
using namespace Halide::Internal;

namespace {

using FuncRead = Halide::Internal::Call;

bool is_pure(const Function &f) {
    return f.has_pure_definition() && !f.has_update_definition() && !f.has_extern_definition() &&
           f.definition().values().size() == 1;
}

/// Inlines all pure Funcs, down to arrays and sums. (Halide's own inlining needs a schedule.)
class Inlined : public IRMutator {
public:
    explicit Inlined(const std::set<std::string> &arrays) : arrays(arrays) {}

private:
    const std::set<std::string> &arrays;
    using IRMutator::visit;
    Expr visit(const FuncRead *op) override {
        const Expr read = IRMutator::visit(op);
        const auto *r = read.as<FuncRead>();
        if (!r || r->call_type != FuncRead::Halide || arrays.count(r->name) || !r->func.defined()) return read;
        const Function f(r->func);
        if (!is_pure(f)) return read;
        std::map<std::string, Expr> place;
        for (size_t k = 0; k < r->args.size(); k++) place[f.args()[k]] = r->args[k];
        return mutate(substitute(place, substitute_in_all_lets(f.definition().values()[0])));
    }
};

class SumFinder {
public:
    SumFinder(const Func &f, const Shape &shape, const std::set<std::string> &arrays) : arrays(arrays) {
        std::vector<Expr> place;
        for (const Var &v : f.args()) {
            bounds.push(v.name(), Interval(0, shape[int(place.size())] - 1));
            found.place.push_back(v.name()), place.emplace_back(v);
        }
        fits = take(FuncRead::make(f.function(), place, 0));
    }
    SumOfProducts found;
    bool fits = false;

private:
    const std::set<std::string> &arrays;
    Scope<Interval> bounds;

    Expr inlined(const Expr &e) const {
        return simplify(Inlined(arrays).mutate(substitute_in_all_lets(e)), true, bounds);
    }
    /// The expression as a read of an array at variables alone; none: it is something else.
    std::optional<ReadAt> array(const Expr &e) const {
        const auto *read = e.as<FuncRead>();
        if (!read || read->call_type != FuncRead::Halide || !arrays.count(read->name)) return std::nullopt;
        ReadAt r{read->name, {}};
        for (const Expr &a : read->args) {
            const auto *v = simplify(a, true, bounds).as<Variable>();
            if (!v) return std::nullopt;
            r.at.push_back(v->name);
        }
        return r;
    }
    static std::vector<Expr> terms(const Expr &e) {
        const auto *sum = e.as<Add>();
        if (!sum) return is_const_zero(e) ? std::vector<Expr>{} : std::vector<Expr>{e};
        std::vector<Expr> all = terms(sum->a);
        const std::vector<Expr> more = terms(sum->b);
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    bool take_first(const Expr &e) {
        const auto read = array(e);
        const bool fresh = !found.first;
        found.first = read;
        return read && fresh;
    }
    /// Takes the result apart: it must be a sum, plus at most one array.
    bool take(const Expr &result) {
        bool summed = false;
        for (const Expr &e : terms(inlined(result))) {
            const auto *read = e.as<FuncRead>();
            if (array(e) ? !take_first(e)
                         : !read || !read->func.defined() || std::exchange(summed, true) || !take_sum(*read))
                return false;
        }
        return summed;
    }
    bool take_sum(const FuncRead &read) {
        const Function f(read.func);
        if (f.updates().size() != 1 || !f.has_pure_definition() || f.definition().values().size() != 1) return false;
        std::map<std::string, Expr> place;
        for (size_t k = 0; k < read.args.size(); k++) {
            if (!read.args[k].as<Variable>()) return false;
            place[f.args()[k]] = read.args[k];
        }
        const Definition &d = f.update(0);
        for (size_t k = 0; k < d.args().size(); k++)
            if (const auto *v = d.args()[k].as<Variable>(); !v || v->name != f.args()[k]) return false;
        if (!is_const_one(d.predicate())) return false;
        for (const ReductionVariable &r : d.schedule().rvars()) {
            const auto least = as_const_int(simplify(r.min)), extent = as_const_int(simplify(r.extent));
            if (least != 0 || !extent) return false;
            found.loops[r.var] = int(*extent);
            bounds.push(r.var, Interval(0, int(*extent) - 1));
        }
        for (const Expr &e : terms(inlined(substitute(place, f.definition().values()[0]))))
            if (!take_first(e)) return false;
        bool own = false;
        std::vector<Expr> added;
        for (const Expr &e : terms(substitute_in_all_lets(d.values()[0])))
            if (const auto *r = e.as<FuncRead>(); r && r->name == f.name() && !own)
                own = true;
            else
                added.push_back(e);
        return own && added.size() == 1 && take_product(inlined(substitute(place, added[0])));
    }
    bool take_product(const Expr &e) {
        const auto *product = e.as<Mul>();
        for (const Expr &factor : product ? std::vector<Expr>{product->a, product->b} : std::vector<Expr>{e}) {
            const auto read = array(factor);
            if (!read) return false;
            found.factors.push_back(*read);
        }
        return true;
    }
};

}  // namespace

std::optional<SumOfProducts> sum_of_products(const Func &f, const Shape &shape, const std::set<std::string> &arrays) {
    if (!f.defined() || f.outputs() != 1 || f.dimensions() != shape.rank()) return std::nullopt;
    const SumFinder of_f(f, shape, arrays);
    return of_f.fits ? std::optional(of_f.found) : std::nullopt;
}

}  // namespace cryolite::compiler
