#pragma once
// Funcs that only show another one, its indices in another order.

#include <Halide.h>

#include <string>

namespace cryolite {

/// The call that is all of `f`; null where `f` computes.
inline const Halide::Internal::Call *view_of(const Halide::Func &f) {
    if (f.has_update_definition() || f.outputs() != 1) return nullptr;
    const auto *call = f.value().as<Halide::Internal::Call>();
    return call && call->call_type == Halide::Internal::Call::Halide ? call : nullptr;
}

/// The Func that does the work.
inline Halide::Func behind_views(Halide::Func f) {
    while (const auto *call = view_of(f)) f = Halide::Func(Halide::Internal::Function(call->func));
    return f;
}

/// A name without what Halide adds to make it the only one.
inline std::string base_name(const std::string &name) { return name.substr(0, name.find('$')); }

}  // namespace cryolite
