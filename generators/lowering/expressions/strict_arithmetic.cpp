#include "generators/lowering/expressions/strict_arithmetic.h"

namespace cryolite::compiler {

using namespace Halide;
using Internal::Call;

namespace {

class Strict : public Internal::IRMutator {
    using IRMutator::visit;
    template <typename Op> Expr fix(const Op *op, Call::IntrinsicOp strict) {
        if (!op->type.is_float()) return IRMutator::visit(op);
        return Call::make(op->type, strict, {mutate(op->a), mutate(op->b)}, Call::PureIntrinsic);
    }
    Expr visit(const Internal::Add *op) override { return fix(op, Call::strict_add); }
    Expr visit(const Internal::Sub *op) override { return fix(op, Call::strict_sub); }
    Expr visit(const Internal::Mul *op) override { return fix(op, Call::strict_mul); }
};

}  // namespace

Expr strict(const Expr &e) { return Strict().mutate(e); }

}  // namespace cryolite::compiler
