#include "generators/passes/placement/by_row.h"

#include <map>

#include "bundle/error.h"
#include "schedules/views.h"

namespace cryolite::compiler {

using namespace Halide;
using namespace Halide::Internal;

namespace {

class UsesVariable : public IRVisitor {
public:
    explicit UsesVariable(const std::string &name) : name(name) {}
    bool found = false;

private:
    const std::string &name;
    using IRVisitor::visit;
    void visit(const Variable *op) override { found |= op->name == name; }
};

class ByRow : public IRMutator {
public:
    ByRow(const std::string &parameter, const Var &row) : parameter(parameter), row(row) {}

    Func of(const Function &f) {
        if (auto made = lifted.find(f.name()); made != lifted.end()) return made->second;
        const std::string name = base_name(f.name());
        if (f.has_extern_definition()) fail("'{}' is an extern stage, and no row of it can be taken by itself", name);
        std::vector<Var> args(f.args().begin(), f.args().end());
        args.push_back(row);
        const std::vector<Expr> pure = all(f.values());
        Func g(name);
        g(args) = Tuple(pure);
        lifted[f.name()] = g;  // an update reads its own Func
        for (const Definition &update : f.updates()) {
            UsesVariable in_domain(parameter);
            update.predicate().accept(&in_domain);
            if (in_domain.found) fail("the domain of a sum in '{}' depends on the row", name);
            std::vector<Expr> at = all(update.args());
            at.push_back(row);
            g(at) = Tuple(all(update.values()));
        }
        return g;
    }

    bool depends(const Function &f) {
        auto [known, fresh] = dependent.emplace(f.name(), false);
        if (!fresh) return known->second;
        UsesVariable direct(parameter);
        f.accept(&direct);
        bool any = direct.found;
        for (auto &[name, g] : find_direct_calls(f)) any |= name != f.name() && depends(g);
        return dependent[f.name()] = any;
    }

private:
    const std::string parameter;
    const Var row;
    std::map<std::string, Func> lifted;
    std::map<std::string, bool> dependent;

    std::vector<Expr> all(const std::vector<Expr> &list) {
        std::vector<Expr> made;
        for (const Expr &e : list) made.push_back(mutate(e));
        return made;
    }

    using IRMutator::visit;
    Expr visit(const Variable *op) override { return op->name == parameter ? Expr(row) : Expr(op); }
    Expr visit(const Internal::Call *op) override {
        if (op->call_type != Internal::Call::Halide || !depends(Function(op->func))) return IRMutator::visit(op);
        std::vector<Expr> at = all(op->args);
        at.push_back(row);
        return Internal::Call::make(of(Function(op->func)).function(), at, op->value_index);
    }
};

}  // namespace

Func by_row(const Func &f, const std::string &parameter, const Var &row) {
    ByRow rows(parameter, row);
    if (rows.depends(f.function())) return rows.of(f.function());
    Func same(base_name(f.name()));  // the same for every row
    std::vector<Var> args = f.args();
    const std::vector<Expr> at(args.begin(), args.end());
    args.push_back(row);
    same(args) = f(at);
    return same;
}

}  // namespace cryolite::compiler
