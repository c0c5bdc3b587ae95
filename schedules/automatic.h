#pragma once
// Halide's autoschedulers, and other loops that need no layer's knowledge.

#include "schedules/group.h"

namespace cryolite {

/// Plain loops for any kernel on any machine: each sum that other Funcs read has a loop nest of its own.
void plain_loops(Group &g, const Machine &m);

/// Halide's autoschedulers for this kind of machine, the best first, then plain loops. Every argument of the pipeline
/// must have estimates.
std::vector<AutomaticLoops> automatic_loops(const Machine &m);

/// The best of them with wider beams, which take minutes for a kernel, not seconds.
std::vector<AutomaticLoops> wider_automatic_loops(const Machine &m);

/// The names of the values of the tunable `automatic`: 0, the written loops; automatic_loops(); the wider ones; on a
/// CPU, tiled.
const std::vector<std::string> &automatic_names(const Machine &m);

}  // namespace cryolite
