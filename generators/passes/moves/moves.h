#pragma once
// Lines that a step could have beside its own: which stages could share a kernel, and what that would save.

#include <optional>

#include "generators/passes/entry_view.h"

namespace cryolite::compiler {

/// A change of a step's lines. Whether it is legal the passes say.
struct Move {
    std::vector<std::pair<Stage, Placement>> lines;
    int64_t bytes = 0;  ///< of memory traffic that a step saves by it, where all of its lines are legal
    /// Elements are computed as often as before, in loops that have what they read: it costs no time. Else it may: a
    /// prologue is computed once in each task of the loops that read it.
    bool is_epilogue = false;
};

/// The fusions of a program that all passes have been through: of a stage with those that read it. Those that save most
/// come first; among equals, the latest of the step.
std::vector<Move> fusions_of(StepProgram &p);

/// "s(act).compute_with(up); s(up).compute_at(norm)"
std::string text_of(const Move &m);

/// What a line calls the stage that an operation makes; none: no line can name it, as its layer is an operator of the
/// model's, or of a block of its head.
std::optional<Stage> stage_of(const StepProgram &p, const EntryView &e, OpId id);

}  // namespace cryolite::compiler
