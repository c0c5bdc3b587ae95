#include "dsl/stop_gradient.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cryolite {

using Halide::Expr, Halide::Func, Halide::Var;
using namespace Halide::Internal;

namespace {

// Halide keeps no mark on an expression through its passes, so the Func's name is the mark.
const std::string mark = "stop_gradient";

/// The loop variables of an expression, in the order in which it names them.
class LoopVariables : public IRVisitor {
public:
    std::vector<Expr> list;

private:
    using IRVisitor::visit;
    void visit(const Variable *op) override {
        const bool known = std::ranges::any_of(list, [&](const Expr &e) { return e.as<Variable>()->name == op->name; });
        if (!op->param.defined() && !op->image.defined() && !known) list.push_back(op);
    }
};

}  // namespace

Expr stop_gradient(const Expr &e) {
    // Reduction variables become arguments of the Func, like all other loop variables.
    const Expr whole = substitute_in_all_lets(e);
    LoopVariables used;
    whole.accept(&used);
    std::map<std::string, Expr> renamed;
    std::vector<Var> vars;
    for (const Expr &v : used.list) renamed[v.as<Variable>()->name] = vars.emplace_back();
    Func f(mark);
    f(vars) = substitute(renamed, whole);
    return f(used.list);
}

Func stop_gradient(const Func &f) {
    Func same(mark);
    same(Halide::_) = f(Halide::_);
    return same;
}

bool stops_gradient(const Function &f) { return f.name().substr(0, f.name().find('$')) == mark; }

}  // namespace cryolite
