#include "generators/lowering/expressions/half_products.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "dsl/numerics.h"
#include "schedules/split_products.h"
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

/// A matrix product f(x, y) += a(x, k) * b(k, y).
struct Product {
    Expr a, b;
    std::string x, y, k;
    int terms = 0;
    Func sums;  ///< of the same name, variables and first values, without the product
};

std::optional<Product> product_of(const Func &f) {
    if (f.num_update_definitions() != 1 || f.outputs() != 1 || f.dimensions() != 2) return {};
    const Internal::Definition &update = f.function().update(0);
    const auto &rvars = update.schedule().rvars();
    const auto *sum = f.update_value().as<Internal::Add>();
    const auto *product = sum ? sum->b.as<Internal::Mul>() : nullptr;
    if (!product || rvars.size() != 1 || !Internal::is_const_one(update.predicate())) return {};
    std::vector<std::string> at;
    for (const Expr &e : f.update_args())
        if (const auto *v = e.as<Internal::Variable>()) at.push_back(v->name);
    if (at.size() != 2) return {};
    Expr a = product->a, b = product->b;
    if (uses(a, at[1])) std::swap(a, b);
    if (uses(a, at[1]) || uses(b, at[0])) return {};
    const auto terms = Internal::as_const_int(Internal::simplify(rvars[0].extent));
    if (!terms) return {};
    Product found{a, b, at[0], at[1], rvars[0].var, int(*terms), Func(base_name(f.name()))};
    found.sums(f.args()) = f.value();
    return found;
}

/// `f` with the product that it computes, or sees, rewritten; `f` itself, where `rewritten` returns nothing.
template <typename Rewritten> Func with_product(const Func &f, const Rewritten &rewritten) {
    if (const Internal::Call *call = view_of(f)) {
        Func behind{Internal::Function(call->func)}, seen = with_product(behind, rewritten);
        if (seen.name() == behind.name()) return f;
        Func again(base_name(f.name()));
        again(f.args()) = seen(call->args);
        return again;
    }
    std::optional<Product> product = product_of(f);
    return product && rewritten(*product) ? product->sums : f;
}

/// Funcs (p, x, k) of the three bf16 whose sum is the term 2 k + p of a factor; of zero past the last.
std::array<Func, 3> split(const std::string &name, const Expr &factor, const std::string &of, const std::string &k,
                          int terms) {
    Var p("p"), x("x"), pair("k");
    const Expr term = 2 * pair + p;
    Expr e = Internal::substitute({{of, x}, {k, terms % 2 ? min(term, terms - 1) : term}}, factor);
    if (terms % 2) e = select(term < terms, e, 0.0f);
    const auto to_nearest = [](const Expr &bits) {
        return (bits + Expr(uint32_t(0x8000))) & Expr(uint32_t(0xffff0000));
    };
    const auto value = [](const Expr &bits) { return reinterpret<float>(bits); };
    // Each part rounds what is left to the nearest bf16; what the second leaves is one.
    const Expr high = to_nearest(reinterpret<uint32_t>(e)), rest = e - value(high);
    const Expr middle = to_nearest(reinterpret<uint32_t>(rest)), low = reinterpret<uint32_t>(rest - value(middle));
    const auto part = [&](const char *which, const Expr &bits) {
        Func f(name + which);
        f(p, x, pair) = reinterpret(BFloat(16), cast<uint16_t>(bits >> 16));
        return f;
    };
    return {part("", high), part("_middle", middle), part("_low", low)};
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
    return with_product(f, [&](Product &of) {
        Func &sums = of.sums;
        const Var x = sums.args()[0], y = sums.args()[1];
        if (how == HalfProducts::single) {
            RDom k(0, of.terms, "k");
            auto factor = [&](const Expr &e) {
                return widened(narrowed(Internal::substitute(of.k, k, e), halves, to));
            };
            sums(x, y) += factor(of.a) * factor(of.b);
            return true;
        }
        const bool wide = !to.is_bfloat() || how == HalfProducts::pairs;
        Func A = pairs("a_pairs", of.a, of.x, of.k, of.terms, halves, to, wide);
        Func B = pairs("b_pairs", of.b, of.y, of.k, of.terms, halves, to, wide);
        RDom k(0, 2, 0, (of.terms + 1) / 2, "k");
        sums(x, y) += cast<float>(A(k.x, x, k.y)) * cast<float>(B(k.x, y, k.y));
        return true;
    });
}

Func with_split_factors(const Func &f, int columns, int64_t rows) {
    return with_product(f, [&](Product &of) {
        if (!pays_to_split(columns, rows, of.terms)) return false;
        const auto A = split("a_pairs", of.a, of.x, of.k, of.terms), B = split("b_pairs", of.b, of.y, of.k, of.terms);
        const Var x = of.sums.args()[0], y = of.sums.args()[1];
        RDom k(0, 2, 0, (of.terms + 1) / 2, "k");
        Expr sum;
        for (size_t left_out : {3, 2, 1})  // the smallest first
            for (size_t i = 0; i < left_out; i++) {
                const Expr term = cast<float>(A[i](k.x, x, k.y)) * cast<float>(B[left_out - 1 - i](k.x, y, k.y));
                sum = sum.defined() ? sum + term : term;
            }
        of.sums(x, y) += sum;
        return true;
    });
}

}  // namespace cryolite::compiler
