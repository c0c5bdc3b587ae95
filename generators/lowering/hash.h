#pragma once

#include <string>

#include "schedules/group.h"

namespace cryolite::compiler {

struct BuiltKernel;

/// The first 32 hexadecimal digits of the SHA-256 of `bytes`.
std::string digest(const std::string &bytes);
/// The algorithm and schedule of a pipeline, with its constants, as bytes. They are equal for pipelines that are built
/// in the same way in processes that have built no other Func.
std::string serialised(const Halide::Pipeline &pipeline);
/// A digest of a kernel's serialised algorithm and schedule, its arguments, the target and Halide's version. It is
/// stable across processes. `loops`: the automatic schedule that the kernel will get, where it has none yet.
std::string kernel_key(const BuiltKernel &k, const Machine &m, const std::string &loops = "");

/// A digest of what a kernel computes, the same for all machines. By it the records of other machines are found.
std::string algorithm_key(const BuiltKernel &k);

/// The key of Halide's own runtime for a target.
std::string runtime_key(const Halide::Target &target);

}  // namespace cryolite::compiler
