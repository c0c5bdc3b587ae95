#include "generators/lowering/expressions/half_products.h"

#include <algorithm>

#include "dsl/numerics.h"
#include "schedules/views.h"

namespace cryolite::compiler {

using namespace Halide;

namespace {

bool uses(const Expr &e, const std::string &variable) { return Internal::expr_uses_var(e, variable); }

/// Whether the element after one at an even index `k` is stored, be it as padding: a panel of even width holds both.
bool next_is_stored(Expr e, const std::string &k) {
    const auto *call = e.as<Internal::Call>();
    while (call && call->call_type == Internal::Call::Halide) {
        Func f{Internal::Function(call->func)};
        if (f.has_update_definition() || f.outputs() != 1) return false;
        e = written_out(*call, f);
        call = e.as<Internal::Call>();
    }
    if (!call || call->call_type != Internal::Call::Image) return false;
    return std::ranges::any_of(call->args, [&](const Expr &at) {
        const auto *mod = at.as<Internal::Mod>();
        const auto size = mod ? Internal::as_const_int(mod->b) : std::nullopt;
        return size && *size % 2 == 0 && uses(mod->a, k);
    });
}

/// A Func (p, x, k) of the terms 2 k + p of a factor, in float32 if `wide`. A term past the last is zero, or the
/// padding of a panel.
Func pairs(const std::string &name, const Expr &factor, const std::string &of, const std::string &k, int terms,
           const HalfFuncs &halves, const Type &to, bool wide) {
    Func f(name);
    Var p("p"), x("x"), pair("k");
    Expr term = 2 * pair + p;
    auto element = [&](const Expr &at) {
        return narrowed(Internal::substitute({{of, x}, {k, at}}, factor), halves, to);
    };
    Expr e = element(term);
    if (terms % 2 && !next_is_stored(e, pair.name())) {
        e = element(min(term, terms - 1));
        e = reinterpret(to, select(term < terms, reinterpret<uint16_t>(e), cast<uint16_t>(0)));
    }
    f(p, x, pair) = wide ? widened(e) : e;
    return f;
}

}  // namespace

Expr narrowed(const Expr &e, const HalfFuncs &halves, const Type &to) {
    if (const auto *call = e.as<Internal::Call>(); call && call->call_type == Internal::Call::Halide) {
        if (auto half = halves.find(call->name); half != halves.end()) return half->second(call->args);
        Func f{Internal::Function(call->func)};
        if (view_of(f)) return narrowed(written_out(*call, f), halves, to);
    }
    return rounded(e, to);
}

Func with_half_factors(const Func &f, const HalfFuncs &halves, const Type &to, HalfProducts how) {
    if (const Internal::Call *call = view_of(f)) {
        Func behind{Internal::Function(call->func)}, seen = with_half_factors(behind, halves, to, how);
        if (seen.name() == behind.name()) return f;
        Func again(base_name(f.name()));
        again(f.args()) = seen(call->args);
        return again;
    }
    if (f.num_update_definitions() != 1 || f.outputs() != 1 || f.dimensions() != 2) return f;
    const Internal::Definition &update = f.function().update(0);
    const auto &rvars = update.schedule().rvars();
    const auto *sum = f.update_value().as<Internal::Add>();
    const auto *product = sum ? sum->b.as<Internal::Mul>() : nullptr;
    if (!product || rvars.size() != 1 || !Internal::is_const_one(update.predicate())) return f;
    std::vector<std::string> at;
    for (const Expr &e : f.update_args())
        if (const auto *v = e.as<Internal::Variable>()) at.push_back(v->name);
    if (at.size() != 2) return f;
    Expr a = product->a, b = product->b;
    if (uses(a, at[1])) std::swap(a, b);
    if (uses(a, at[1]) || uses(b, at[0])) return f;
    const auto terms = Internal::as_const_int(Internal::simplify(rvars[0].extent));
    if (!terms) return f;
    Func result(base_name(f.name()));
    Var x = f.args()[0], y = f.args()[1];
    result(x, y) = f.value();
    if (how == HalfProducts::single) {
        RDom k(0, int(*terms), "k");
        auto factor = [&](const Expr &e) {
            return widened(narrowed(Internal::substitute(rvars[0].var, k, e), halves, to));
        };
        result(x, y) += factor(a) * factor(b);
        return result;
    }
    const bool wide = !to.is_bfloat() || how == HalfProducts::pairs;
    Func A = pairs("a_pairs", a, at[0], rvars[0].var, int(*terms), halves, to, wide);
    Func B = pairs("b_pairs", b, at[1], rvars[0].var, int(*terms), halves, to, wide);
    RDom k(0, 2, 0, int(*terms + 1) / 2, "k");
    result(x, y) += cast<float>(A(k.x, x, k.y)) * cast<float>(B(k.x, y, k.y));
    return result;
}

}  // namespace cryolite::compiler
