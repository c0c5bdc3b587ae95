#include "generators/lowering/expressions/narrow_words.h"

#include "bundle/error.h"

namespace cryolite::compiler {

namespace {

using namespace Halide;
using namespace Halide::Internal;

Expr words(uint32_t value, int lanes) { return make_const(UInt(32, lanes), value); }

/// The float32 of a bf16. The bf16 is the float32's upper half.
Expr of_bfloat16(const Expr &word) {
    const int lanes = word.type().lanes();
    return reinterpret(Float(32, lanes), cast(UInt(32, lanes), word) << 16);
}

/// The nearest bf16, ties to even.
Expr to_bfloat16(const Expr &x) {
    const int lanes = x.type().lanes();
    const Expr bits = reinterpret(UInt(32, lanes), x);
    return cast(UInt(16, lanes), (bits + words(0x7fff, lanes) + ((bits >> 16) & 1)) >> 16);
}

/// The float32 of an fp16, whose exponent has a bias that is smaller by 112. No intermediate value is a denormal
/// float32, since devices flush those to zero.
Expr of_float16(const Expr &word) {
    const int lanes = word.type().lanes();
    const Expr bits = cast(UInt(32, lanes), word), magnitude = bits & words(0x7fff, lanes), moved = magnitude << 13;
    const Expr small = cast(Float(32, lanes), magnitude) * make_const(Float(32, lanes), 0x1p-24);
    const Expr usual =
        select(magnitude < words(0x400, lanes), reinterpret(UInt(32, lanes), small), magnitude >= words(0x7c00, lanes),
               moved | words(0x7f800000, lanes), moved + words(112 << 23, lanes));
    return reinterpret(Float(32, lanes), usual | ((bits & words(0x8000, lanes)) << 16));
}

/// The nearest fp16, ties to even. From 65520 on it is infinite. Below 2^-14 it is a multiple of 2^-24, to which adding
/// 1/2 rounds.
Expr to_float16(const Expr &x) {
    const int lanes = x.type().lanes();
    const Type t = UInt(32, lanes);
    const Expr bits = reinterpret(t, x), a = bits & words(0x7fffffff, lanes);
    const Expr usual = ((a + words(0xfff, lanes) + ((a >> 13) & 1)) >> 13) - words(112 << 10, lanes);
    const Expr shifted = strict_float(reinterpret(x.type(), a) + make_const(x.type(), 0.5));
    const Expr h =
        select(a > words(0x7f800000, lanes), words(0x7e00, lanes), a >= words(0x47800000, lanes), words(0x7c00, lanes),
               a < words(0x38800000, lanes), reinterpret(t, shifted) - words(0x3f000000, lanes), usual);
    return cast(UInt(16, lanes), h | ((bits >> 16) & words(0x8000, lanes)));
}

class NarrowWords : public IRMutator {
public:
    explicit NarrowWords(bool float16_too) : float16_too(float16_too) {}

private:
    const bool float16_too;
    using IRMutator::visit;

    bool narrow(const Type &t) const {
        return t.is_bfloat() || (float16_too && t.is_float() && t.bits() == 16 && !t.is_handle());
    }
    Type stored(const Type &t) const { return narrow(t) ? t.with_code(Type::UInt) : t; }

    Expr visit(const Load *op) override {
        return Load::make(stored(op->type), op->name, mutate(op->index), op->image, op->param, mutate(op->predicate),
                          op->alignment);
    }
    Stmt visit(const Allocate *op) override {
        if (!narrow(op->type)) return IRMutator::visit(op);
        return Allocate::make(op->name, stored(op->type), op->memory_type, mutate(op->extents), mutate(op->condition),
                              mutate(op->body), op->new_expr, op->free_function, op->padding);
    }
    Expr visit(const Variable *op) override {
        if (!narrow(op->type)) return op;
        return Variable::make(stored(op->type), op->name, op->image, op->param, op->reduction_domain);
    }
    Expr visit(const FloatImm *op) override {
        if (op->type.is_bfloat() && narrow(op->type))
            return make_const(stored(op->type), bfloat16_t(op->value).to_bits());
        if (narrow(op->type)) return make_const(stored(op->type), float16_t(op->value).to_bits());
        return op;
    }
    Expr visit(const Reinterpret *op) override {
        const Expr value = mutate(op->value);
        return value.type() == stored(op->type) ? value : reinterpret(stored(op->type), value);
    }
    Expr visit(const Cast *op) override {
        const Type from = op->value.type(), to = op->type;
        Expr value = mutate(op->value);
        if (narrow(from)) value = from.is_bfloat() ? of_bfloat16(value) : of_float16(value);
        if (!narrow(to)) return cast(to, value);
        value = cast(Float(32, to.lanes()), value);
        return to.is_bfloat() ? to_bfloat16(value) : to_float16(value);
    }
    Expr visit(const Internal::Call *op) override {
        // Halide makes one intrinsic of two vectors that are widened and then multiplied or added: here it is undone.
        if (op->is_intrinsic(
                {Internal::Call::widening_add, Internal::Call::widening_sub, Internal::Call::widening_mul}) &&
            narrow(op->args[0].type())) {
            const Expr a = mutate(cast(op->type, op->args[0])), b = mutate(cast(op->type, op->args[1]));
            return op->is_intrinsic(Internal::Call::widening_add)   ? a + b
                   : op->is_intrinsic(Internal::Call::widening_sub) ? a - b
                                                                    : a * b;
        }
        if (!narrow(op->type)) return IRMutator::visit(op);
        return Internal::Call::make(stored(op->type), op->name, mutate(op->args), op->call_type, op->func,
                                    op->value_index, op->image, op->param);
    }

    /// Refuses arithmetic in 16 bits. Layers compute in float32.
    template <typename Op> Expr no_arithmetic(const Op *op) {
        if (narrow(op->a.type()))
            fail("a kernel computes in a 16-bit type ({}), which kernels of a device only load and store: cast to "
                 "float32 before computing",
                 op->a.type().is_bfloat() ? "bf16" : "fp16");
        return IRMutator::visit(op);
    }
    Expr visit(const Add *op) override { return no_arithmetic(op); }
    Expr visit(const Sub *op) override { return no_arithmetic(op); }
    Expr visit(const Mul *op) override { return no_arithmetic(op); }
    Expr visit(const Div *op) override { return no_arithmetic(op); }
    Expr visit(const Min *op) override { return no_arithmetic(op); }
    Expr visit(const Max *op) override { return no_arithmetic(op); }
    Expr visit(const EQ *op) override { return no_arithmetic(op); }
    Expr visit(const NE *op) override { return no_arithmetic(op); }
    Expr visit(const LT *op) override { return no_arithmetic(op); }
    Expr visit(const LE *op) override { return no_arithmetic(op); }
    Expr visit(const GT *op) override { return no_arithmetic(op); }
    Expr visit(const GE *op) override { return no_arithmetic(op); }
};

}  // namespace

void bfloat16_as_words(Pipeline &p) { p.add_custom_lowering_pass(new NarrowWords(false)); }
void narrow_as_words(Pipeline &p) { p.add_custom_lowering_pass(new NarrowWords(true)); }

}  // namespace cryolite::compiler
