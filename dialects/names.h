#pragma once
// The names of the dialects in step schedules, a line for each.
// Users' programs see this header and nothing else of the folder.

namespace cryolite {

/// As a step schedule spells it: s(h).dialect(onednn).
struct DialectName {
    const char *name;
};

/// The implementation that is always there: the kernel's own loops.
inline constexpr DialectName halide{"halide"};
inline constexpr DialectName onednn{"onednn"};
inline constexpr DialectName cublaslt{"cublaslt"};

/// Elements of the widest panel that a product's weight may lie in.
inline constexpr int widest_panel = 1 << 16;

}  // namespace cryolite
