#pragma once
// Views: Funcs that are another Func at other indices, and compute nothing.

#include <Halide.h>

#include <map>
#include <string>

namespace cryolite {

/// The call that is the whole definition of `f`; null where `f` is no view.
inline const Halide::Internal::Call *view_of(const Halide::Func &f) {
    if (f.has_update_definition() || f.outputs() != 1) return nullptr;
    const auto *call = f.value().as<Halide::Internal::Call>();
    return call && call->call_type == Halide::Internal::Call::Halide ? call : nullptr;
}

/// The Func behind all views: the first that is no view.
inline Halide::Func behind_views(Halide::Func f) {
    while (const auto *call = view_of(f)) f = Halide::Func(Halide::Internal::Function(call->func));
    return f;
}

/// The value of a call of `f`, with the call's arguments in place of f's variables.
inline Halide::Expr written_out(const Halide::Internal::Call &call, const Halide::Func &f) {
    std::map<std::string, Halide::Expr> args;
    for (size_t d = 0; d < call.args.size(); d++) args[f.args()[d].name()] = call.args[d];
    return Halide::Internal::substitute(args, f.value());
}

/// A name without the suffix that Halide adds to make it unique.
inline std::string base_name(const std::string &name) { return name.substr(0, name.find('$')); }

}  // namespace cryolite
