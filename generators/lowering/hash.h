#pragma once

#include <string>

#include "schedules/group.h"

namespace cryolite::compiler {

struct BuiltKernel;

/// The first 32 hexadecimal digits of the SHA-256 of `bytes`.
std::string digest(const std::string &bytes);
/// Algorithm and schedule of Funcs, constants included, in bytes: the same for what is built alike in processes that
/// had built no other Func.
std::string serialised(const Halide::Pipeline &pipeline);
/// Stable across processes: serialised algorithm and schedule, arguments, target, compiler build. `loops`: what will
/// schedule it, where nothing has yet.
std::string kernel_key(const BuiltKernel &k, const Machine &m, const std::string &loops = "");

/// The same of what it computes, for whatever machine it is compiled: by it records of others are known.
std::string algorithm_key(const BuiltKernel &k);

/// That of Halide's own runtime for a target.
std::string runtime_key(const Halide::Target &target);

}  // namespace cryolite::compiler
