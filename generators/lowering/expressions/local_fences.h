#pragma once

#include <Halide.h>

namespace cryolite::compiler {

/// Adds a lowering pass for OpenCL: every barrier of a block of threads orders shared memory. After a stage that is
/// kept in registers Halide's barriers order no memory, though the next stage may overwrite what the stage has read.
void local_fences(Halide::Pipeline &p);

}  // namespace cryolite::compiler
