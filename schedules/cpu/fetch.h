#pragma once
// A prefetch as a statement of a lowered program.

#include <Halide.h>

#include <string>

namespace cryolite::cpu {

constexpr int cache_line = 64;  ///< bytes

/// LLVM's locality.
enum class Into { first_cache = 3, second_cache = 2 };

/// Prefetches the line of element `at` of an array. Halide's own prefetch marks lines as used once. Intel's processors
/// keep such lines out of the second cache and write them back at once: a tile's update then takes twice as long. The
/// intrinsic returns nothing, as Halide's runtime declares it; the Int(32) here is never read.
inline Halide::Internal::Stmt fetch(const Halide::Type &type, const std::string &array, const Halide::Expr &at,
                                    Into into = Into::first_cache) {
    using namespace Halide;
    using namespace Halide::Internal;
    constexpr int to_read = 0, data = 1;
    const Expr base = reinterpret(UInt(64), Variable::make(Handle(), array));
    const Expr line_at = reinterpret(Handle(), base + cast<uint64_t>(at) * type.bytes());
    return Evaluate::make(Call::make(Int(32), "llvm.prefetch.p0", {line_at, to_read, int(into), data}, Call::Extern));
}

}  // namespace cryolite::cpu
