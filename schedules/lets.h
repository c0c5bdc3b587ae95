#pragma once
// The lets around a place of a program, for lowering passes.

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace cryolite {

using Lets = std::vector<std::pair<std::string, Halide::Expr>>;  ///< outer ones first

/// `e` with the values of the lets in the place of their names.
inline Halide::Expr known(const Lets &lets, Halide::Expr e) {
    for (size_t i = lets.size(); i--;) e = Halide::Internal::substitute(lets[i].first, lets[i].second, e);
    return e;
}

/// A pass that keeps the lets around the place that it visits.
class WithLets : public Halide::Internal::IRMutator {
protected:
    Lets lets;

    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt *op) override {
        return inside<Halide::Internal::Stmt>(op);
    }
    Halide::Expr visit(const Halide::Internal::Let *op) override { return inside<Halide::Expr>(op); }

private:
    template <typename T, typename LetOrLetStmt> T inside(const LetOrLetStmt *op) {
        lets.emplace_back(op->name, op->value);
        const T t = IRMutator::visit(op);
        lets.pop_back();
        return t;
    }
};

}  // namespace cryolite
