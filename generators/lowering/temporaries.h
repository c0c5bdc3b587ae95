#pragma once
// How much memory a kernel asks for while it runs.

#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

/// Bytes of all arrays that one thread may hold at once while the kernel runs, each with what an allocator adds
/// (apps/cryolite/export_library/library.c.in).
/// Errors: an array whose size no constant bounds.
int64_t temporaries_of(const BuiltKernel &k, const Machine &m);

}  // namespace cryolite::compiler
