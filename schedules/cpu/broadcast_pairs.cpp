#include "schedules/cpu/broadcast_pairs.h"

#include "schedules/lets.h"

namespace cryolite::cpu {

namespace {

using namespace Halide;
using namespace Halide::Internal;

/// The scalar that lane `element` (0 or 1) has of a vector index, where this is computed from
/// shuffle(ramp(e, 1, 2), 0, 1, 0, 1, ...) and from scalars.
class Lane : public IRMutator {
public:
    explicit Lane(int element) : element(element) {}
    /// Undefined where the index holds anything else.
    Expr of(const Expr &index) {
        const Expr lane = mutate(index);
        return failed ? Expr() : lane;
    }

private:
    const int element;
    bool failed = false;

    using IRMutator::visit;
    Expr fail(const Expr &e) {
        failed = true;
        return make_zero(e.type().element_of());
    }
    Expr only_scalar(const Expr &e) { return e.type().is_scalar() ? e : fail(e); }
    Expr visit(const Shuffle *op) override {
        const Ramp *pair = op->vectors.size() == 1 ? op->vectors[0].as<Ramp>() : nullptr;
        if (!pair || pair->lanes != 2 || !pair->base.type().is_scalar()) return fail(op);
        for (size_t i = 0; i < op->indices.size(); i++)
            if (op->indices[i] != int(i % 2)) return fail(op);
        return element ? pair->base + pair->stride : pair->base;
    }
    Expr visit(const Broadcast *op) override { return only_scalar(op->value); }
    Expr visit(const Ramp *op) override { return fail(op); }
    Expr visit(const Load *op) override { return only_scalar(op); }
    Expr visit(const Variable *op) override { return only_scalar(op); }
    Expr visit(const Reinterpret *op) override { return only_scalar(op); }
    Expr visit(const Call *op) override {
        if (op->type.is_scalar()) return op;
        auto argument = [&](size_t i) { return cast(op->type.element_of(), mutate(op->args[i])); };
        if (op->is_intrinsic(Call::widen_right_mul)) return argument(0) * argument(1);
        if (op->is_intrinsic(Call::widen_right_add)) return argument(0) + argument(1);
        const bool left = op->is_intrinsic(Call::shift_left);
        const auto bits =
            left || op->is_intrinsic(Call::shift_right) ? as_const_uint(mutate(op->args[1])) : std::nullopt;
        if (!bits || *bits > 30) return fail(op);
        return left ? argument(0) * (1 << *bits) : divided(op->args[0], 1 << *bits, true);
    }
    /// Halide multiplies indices as uint32, too, where they cannot be negative.
    Expr visit(const Cast *op) override {
        const Expr value = mutate(op->value);
        const Type to = op->type.element_of();
        const Mul *product = to == Int(32) && value.type() == UInt(32) ? value.as<Mul>() : nullptr;
        const Cast *place = product ? product->a.as<Cast>() : nullptr;
        return place && place->value.type() == Int(32) ? place->value * cast<int>(product->b) : cast(to, value);
    }
    /// Whether `even`, an even number, and `next`, even + 1, have the same quotient, as `by` is even.
    bool together(const Expr &even, const Expr &next, const Expr &by) const {
        return element && as_const_int(by) && can_prove(by % 2 == 0) && can_prove(even % 2 == 0) &&
               can_prove(next - even == 1);
    }
    Expr divided(const Expr &dividend, const Expr &by, bool quotient) {
        const Expr even = Lane(0).mutate(dividend), a = mutate(dividend);
        const Expr from = together(even, a, by) ? even : a;
        return quotient ? from / by : from % by + (a - from);
    }
    Expr visit(const Mod *op) override { return divided(op->a, mutate(op->b), false); }
    Expr visit(const Div *op) override { return divided(op->a, mutate(op->b), true); }
};

class BroadcastPairs : public WithLets {
    Scope<Interval> loops;

    using WithLets::visit;
    Stmt visit(const For *op) override {
        const ScopedBinding<Interval> bind(loops, op->name, {op->min, simplify(op->min + op->extent - 1)});
        return IRMutator::visit(op);
    }
    Expr visit(const Load *op) override {
        if (!op->param.defined() || op->type.lanes() <= 2 || op->type.bits() != 16 || !is_const_one(op->predicate))
            return IRMutator::visit(op);
        const Expr index = known(lets, op->index), first = Lane(0).of(index), second = Lane(1).of(index);
        if (!first.defined() || !can_prove(first % 2 == 0) || !can_prove(second - first == 1))
            return IRMutator::visit(op);
        const Expr at = simplify(first / 2, true, loops);
        const Expr pair = Load::make(UInt(32), op->name, at, op->image, op->param, const_true(), ModulusRemainder());
        return Reinterpret::make(op->type, Broadcast::make(pair, op->type.lanes() / 2));
    }
};

}  // namespace

void broadcast_pairs(Halide::Pipeline &p) { p.add_custom_lowering_pass(new BroadcastPairs); }

}  // namespace cryolite::cpu
