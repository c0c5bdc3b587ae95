#pragma once

#include "schedules/lets.h"

namespace cryolite::cpu {

/// The serial loops around one store, outer ones first, and the lets between them.
class Nest : public Halide::Internal::IRVisitor {
public:
    std::vector<const Halide::Internal::For *> loops;
    const Halide::Internal::Store *store = nullptr;
    Lets lets;
    bool other = false;  ///< there is more than that

    explicit Nest(const Halide::Internal::Stmt &s) { s.accept(this); }

private:
    using IRVisitor::visit;
    void visit(const Halide::Internal::For *op) override {
        other |= store || op->for_type != Halide::Internal::ForType::Serial;
        loops.push_back(op);
        op->body.accept(this);
    }
    void visit(const Halide::Internal::Store *op) override {
        other |= store != nullptr;
        store = op;
    }
    void visit(const Halide::Internal::LetStmt *op) override {
        lets.emplace_back(op->name, op->value);
        op->body.accept(this);
    }
    void visit(const Halide::Internal::Allocate *) override { other = true; }
    void visit(const Halide::Internal::IfThenElse *) override { other = true; }
    void visit(const Halide::Internal::Evaluate *) override { other = true; }
    void visit(const Halide::Internal::Atomic *) override { other = true; }
};

}  // namespace cryolite::cpu
