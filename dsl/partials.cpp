#include "dsl/partials.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <sstream>

namespace cryolite {

using namespace Halide;
using namespace Halide::Internal;

namespace {

/// An operand of an operation, and the derivative of the operation with respect to it.
struct Operand {
    Expr of, slope;
};
using Operands = std::vector<Operand>;

Expr number(const Expr &like, double value) { return make_const(like.type(), value); }
Expr zero(const Expr &like) { return make_zero(like.type()); }
Expr one(const Expr &like) { return make_one(like.type()); }
Expr where(const Expr &condition, const Expr &like) { return select(condition, one(like), zero(like)); }

/// adjoint * slope. If one of them is a select with a branch that is 0, the product is a select as well, and 0 in that
/// branch even where the other factor is infinite.
Expr times(const Expr &adjoint, const Expr &slope) {
    if (is_const_zero(adjoint) || is_const_zero(slope)) return zero(adjoint);
    if (is_const_one(slope)) return adjoint;
    if (const auto *choice = adjoint.as<Select>())
        if (is_const_zero(choice->true_value) || is_const_zero(choice->false_value))
            return select(choice->condition, times(choice->true_value, slope), times(choice->false_value, slope));
    if (const auto *choice = slope.as<Select>();
        choice && (is_const_zero(choice->true_value) || is_const_zero(choice->false_value)))
        return select(choice->condition, times(adjoint, choice->true_value), times(adjoint, choice->false_value));
    if (const auto *quotient = slope.as<Div>()) return times(adjoint, quotient->a) / quotient->b;
    return adjoint * slope;
}

/// The derivatives of a mathematical function with respect to each argument; `f` is its value at `x`.
using Slopes = std::function<std::vector<Expr>(const std::vector<Expr> &x, const Expr &f)>;

std::vector<Expr> of_power(const std::vector<Expr> &x, const Expr &f) {
    return {x[1] * pow(x[0], x[1] - one(f)), f * log(x[0])};
}
std::vector<Expr> of_angle(const std::vector<Expr> &x, const Expr &) {
    const Expr square = x[0] * x[0] + x[1] * x[1];
    return {x[1] / square, -x[0] / square};
}

const std::map<std::string, Slopes> &functions() {
    using X = const std::vector<Expr> &;
    using F = const Expr &;
    static const std::map<std::string, Slopes> table = {
        {"exp", [](X, F f) -> std::vector<Expr> { return {f}; }},
        {"log", [](X x, F f) -> std::vector<Expr> { return {one(f) / x[0]}; }},
        {"sqrt", [](X, F f) -> std::vector<Expr> { return {number(f, 0.5) / f}; }},
        {"sin", [](X x, F) -> std::vector<Expr> { return {cos(x[0])}; }},
        {"cos", [](X x, F) -> std::vector<Expr> { return {-sin(x[0])}; }},
        {"tan", [](X, F f) -> std::vector<Expr> { return {one(f) + f * f}; }},
        {"asin", [](X x, F f) -> std::vector<Expr> { return {one(f) / sqrt(one(f) - x[0] * x[0])}; }},
        {"acos", [](X x, F f) -> std::vector<Expr> { return {number(f, -1) / sqrt(one(f) - x[0] * x[0])}; }},
        {"atan", [](X x, F f) -> std::vector<Expr> { return {one(f) / (one(f) + x[0] * x[0])}; }},
        {"sinh", [](X x, F) -> std::vector<Expr> { return {cosh(x[0])}; }},
        {"cosh", [](X x, F) -> std::vector<Expr> { return {sinh(x[0])}; }},
        {"tanh", [](X, F f) -> std::vector<Expr> { return {one(f) - f * f}; }},
        {"asinh", [](X x, F f) -> std::vector<Expr> { return {one(f) / sqrt(x[0] * x[0] + one(f))}; }},
        {"acosh", [](X x, F f) -> std::vector<Expr> { return {one(f) / sqrt(x[0] * x[0] - one(f))}; }},
        {"atanh", [](X x, F f) -> std::vector<Expr> { return {one(f) / (one(f) - x[0] * x[0])}; }},
        {"fast_inverse", [](X, F f) -> std::vector<Expr> { return {-(f * f)}; }},
        {"fast_inverse_sqrt", [](X, F f) -> std::vector<Expr> { return {number(f, -0.5) * f * f * f}; }},
        {"pow", of_power},
        {"atan2", of_angle},
    };
    return table;
}
const std::set<std::string> steps = {"floor", "ceil", "round", "trunc"};

/// The operands of an operation to which a gradient may flow, each with its derivative.
class Rules : public IRVisitor {
public:
    explicit Rules(const Active &active) : active(active) {}
    Operands operands(const Expr &e) {
        found.clear();
        // An integer is a step function of what it is computed from: its slope is 0.
        if (e.type().is_float()) whole = e, e.accept(this);
        return std::move(found);
    }

private:
    const Active &active;
    Expr whole;
    Operands found;

    using IRVisitor::visit;
    void visit(const Cast *op) override {
        if (op->value.type().is_float()) found = {{op->value, one(op->value)}};
    }
    void visit(const Reinterpret *op) override { refuse_bits(op); }
    void visit(const Internal::Add *op) override { found = {{op->a, one(op->a)}, {op->b, one(op->b)}}; }
    void visit(const Sub *op) override { found = {{op->a, one(op->a)}, {op->b, number(op->b, -1)}}; }
    void visit(const Mul *op) override { found = {{op->a, op->b}, {op->b, op->a}}; }
    void visit(const Div *op) override { found = {{op->a, one(whole) / op->b}, {op->b, -whole / op->b}}; }
    void visit(const Mod *op) override { found = {{op->a, one(whole)}, {op->b, -floor(op->a / op->b)}}; }
    void visit(const Min *op) override { choose(op->a <= op->b, op->a, op->b); }
    void visit(const Max *op) override { choose(op->a >= op->b, op->a, op->b); }
    void visit(const Select *op) override { choose(op->condition, op->true_value, op->false_value); }
    void visit(const Internal::Call *op) override {
        if (op->call_type == Internal::Call::Halide || op->call_type == Internal::Call::Image) return;
        if (op->is_intrinsic()) return intrinsic(op);
        std::string name = op->name;
        if (auto at = name.rfind("_f"); at != std::string::npos) name = name.substr(0, at);
        if (steps.count(name)) return;
        if (auto at = functions().find(name); at != functions().end()) {
            const std::vector<Expr> slopes = at->second(op->args, whole);
            for (size_t k = 0; k < slopes.size(); k++) found.push_back({op->args[k], slopes[k]});
        } else {
            refuse_call(op);
        }
    }
    void intrinsic(const Internal::Call *op) {
        using C = Internal::Call;
        const std::vector<Expr> &x = op->args;
        if (op->is_intrinsic({C::likely, C::likely_if_innermost, C::promise_clamped, C::unsafe_promise_clamped}))
            found = {{x[0], one(x[0])}};
        else if (op->is_intrinsic({C::return_second, C::require}))
            found = {{x[1], one(x[1])}};
        else if (op->is_intrinsic(C::strict_add))
            found = {{x[0], one(x[0])}, {x[1], one(x[1])}};
        else if (op->is_intrinsic(C::strict_sub))
            found = {{x[0], one(x[0])}, {x[1], number(x[1], -1)}};
        else if (op->is_intrinsic(C::strict_mul))
            found = {{x[0], x[1]}, {x[1], x[0]}};
        else if (op->is_intrinsic(C::strict_div))
            found = {{x[0], one(whole) / x[1]}, {x[1], -whole / x[1]}};
        else if (op->is_intrinsic(C::strict_min))
            choose(x[0] <= x[1], x[0], x[1]);
        else if (op->is_intrinsic(C::strict_max))
            choose(x[0] >= x[1], x[0], x[1]);
        else if (op->is_intrinsic(C::abs))
            found = {{x[0], sign(x[0])}};
        else if (op->is_intrinsic(C::lerp) && x[2].type().is_float())
            found = {{x[0], one(x[2]) - x[2]}, {x[1], x[2]}, {x[2], x[1] - x[0]}};
        else if (op->is_intrinsic(C::mux))
            for (size_t k = 1; k < x.size(); k++)  // the last value serves every index beyond
                found.push_back(
                    {x[k], where(k + 1 < x.size() ? x[0] == int(k) - 1 : x[0] < 0 || x[0] >= int(k) - 1, x[k])});
        else if (!op->is_intrinsic({C::undef, C::round}))
            refuse_call(op);
    }
    static Expr sign(const Expr &x) { return select(x > zero(x), one(x), x < zero(x), number(x, -1), zero(x)); }
    void choose(const Expr &condition, const Expr &a, const Expr &b) {
        found = {{a, where(condition, a)}, {b, select(condition, zero(b), one(b))}};
    }
    void refuse_bits(const Reinterpret *op) const {
        if (!reads(op->value, active)) return;
        throw Underivable(
            fmt::format("`{}` takes a value by its bits, of which there is no derivative (fast_exp, fast_log, "
                        "fast_pow, fast_sin and fast_cos do so): call exp, log, pow, sin or cos, or say "
                        "stop_gradient where the value only shifts or scales",
                        shown(op)));
    }
    void refuse_call(const Internal::Call *op) const {
        for (const Expr &x : op->args)
            if (reads(x, active))
                throw Underivable(
                    fmt::format("`{}`: there is no rule for the derivative of {}; write it with other functions",
                                shown(op), shown(op->name)));
    }
};

class Reads : public IRGraphVisitor {
public:
    explicit Reads(const Active &of) : of(of) {}
    bool found = false;

private:
    const Active &of;
    using IRGraphVisitor::visit;
    void visit(const Internal::Call *op) override {
        if (op->call_type == Internal::Call::Halide || op->call_type == Internal::Call::Image)
            found |= of(*op);
        else
            IRGraphVisitor::visit(op);
    }
};

/// The operations of an expression through which a gradient flows, each after its operands.
class Operations {
public:
    Operations(const Expr &value, const Active &active) : active(active), rules(active) { include(value); }
    struct Operation {
        Expr e;
        Operands operands;
    };
    std::vector<Operation> list;

private:
    const Active &active;
    Rules rules;
    std::map<const IRNode *, bool> known;

    bool include(const Expr &e) {
        if (auto at = known.find(e.get()); at != known.end()) return at->second;
        const auto *call = e.as<Internal::Call>();
        bool flows = call && e.type().is_float() && active(*call);
        Operands live;
        for (const Operand &o : rules.operands(e))
            if (include(o.of)) live.push_back(o), flows = true;
        if (flows) list.push_back({e, live});
        return known[e.get()] = flows;
    }
};

}  // namespace

std::vector<Partial> partials(const Expr &value, const Expr &adjoint, const Active &active) {
    const Expr whole = substitute_in_all_lets(value);
    const Operations operations(whole, active);
    std::map<const IRNode *, Expr> adjoints = {{whole.get(), adjoint}};
    std::vector<Partial> result;
    for (size_t k = operations.list.size(); k-- > 0;) {
        const auto &[e, operands] = operations.list[k];
        const Expr of_e = adjoints.at(e.get());
        if (operands.empty()) result.push_back({e, of_e});
        for (const Operand &o : operands) {
            Expr &sum = adjoints[o.of.get()];
            const Expr term = cast(o.of.type(), times(of_e, o.slope));
            sum = sum.defined() ? sum + term : term;
        }
    }
    return result;
}

bool reads(const Expr &value, const Active &of) {
    Reads r(of);
    value.accept(&r);
    return r.found;
}

namespace {

/// The length of the type in parentheses, "(float32)", that `text` begins with; 0: it begins with none.
size_t type_prefix(std::string_view text) {
    for (const std::string_view name : {"(int", "(uint", "(float", "(bfloat"}) {
        if (!text.starts_with(name)) continue;
        const size_t end = text.find_first_not_of("0123456789", name.size());
        if (end != text.npos && end > name.size() && text[end] == ')') return end + 1;
    }
    return 0;
}

}  // namespace

std::string shown(const Expr &e) {
    std::ostringstream text;
    text << e;
    std::string s = shown(text.str());
    return s.size() > 160 ? s.substr(0, 157) + "..." : s;
}

std::string shown(const std::string &text) {
    std::string said;
    std::string_view rest = text;
    auto skip = [&](size_t n) { rest.remove_prefix(n); };
    auto digits = [&](size_t from) { return std::min(rest.find_first_not_of("0123456789", from), rest.size()) - from; };
    while (!rest.empty()) {
        // "S$2" becomes S, "r$x" becomes r.x; types before reads and constants are dropped.
        if (rest[0] == '$' && digits(1)) {
            skip(1 + digits(1));
        } else if (rest[0] == '$' && rest.size() > 1 && rest[1] >= 'a' && rest[1] <= 'z') {
            said += '.', skip(1);
        } else if (const size_t n = type_prefix(rest)) {
            skip(n);
        } else {
            said += rest[0], skip(1);
        }
    }
    return said;
}

}  // namespace cryolite
