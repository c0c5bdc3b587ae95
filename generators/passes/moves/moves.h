#pragma once
// Lines that a step could have beside its own: which stages could share a kernel, and what that would save.

#include <optional>

#include "generators/passes/entry_view.h"

namespace cryolite::compiler {

/// A change of a step's lines. The passes decide whether it is legal.
struct Move {
    std::vector<std::pair<Stage, Placement>> lines;
    int64_t bytes = 0;  ///< of memory traffic that a step saves by it, where all of its lines are legal
    /// True: elements are computed as often as before, in loops that already have what they read, so the move costs no
    /// time. False: it may, since a prologue is computed once in each task of the loops that read it.
    bool is_epilogue = false;
};

/// Fusions of stages with their readers, for a program that has been through all passes. Those that save most come
/// first; among equals, the latest of the step.
std::vector<Move> fusions_of(StepProgram &p);

/// "s(act).compute_with(up); s(up).compute_at(norm)"
std::string text_of(const Move &m);

/// The stage that an operation makes, as lines name it; none: no line can name it, because it is of an operator of the
/// model, or of a chunk of the head.
std::optional<Stage> stage_of(const StepProgram &p, const EntryView &e, OpId id);

}  // namespace cryolite::compiler
