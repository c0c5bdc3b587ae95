#pragma once
// The passes, and what runs them in their order.

#include <span>

#include "generators/passes/pass.h"

namespace cryolite::compiler {

struct NamedPass {
    const char *name;
    Pass run;
    const char *does;  ///< a line for people
};

/// All passes, in their order (pipeline.cpp).
std::span<const NamedPass> passes();

/// The step of a model: its trace, taken through every pass. After each the program is verified, where that is on.
/// Errors: a pass refuses a line; the message has the reason and the nearest legal line.
StepProgram lower(const Context &cx);
/// Whether programs are verified: in builds that say so, and with CRYOLITE_VERIFY=1.
bool verifies();

void simplify(StepProgram &p, const Context &cx);
void find_products(StepProgram &p, const Context &cx);
void freeze(StepProgram &p, const Context &cx);
void chunk_head(StepProgram &p, const Context &cx);
void assign_formats(StepProgram &p, const Context &cx);
void weigh_rows(StepProgram &p, const Context &cx);
void group_parameters(StepProgram &p, const Context &cx);
void declare_state(StepProgram &p, const Context &cx);
void differentiate(StepProgram &p, const Context &cx);
void emit_updates(StepProgram &p, const Context &cx);
void shard_updates(StepProgram &p, const Context &cx);
void infer_natures(StepProgram &p, const Context &cx);
void infer_reads(StepProgram &p, const Context &cx);
void rematerialise(StepProgram &p, const Context &cx);
void drop_dead(StepProgram &p, const Context &cx);
void defer_updates(StepProgram &p, const Context &cx);
void fuse(StepProgram &p, const Context &cx);
void read_sources(StepProgram &p, const Context &cx);
void place_updates(StepProgram &p, const Context &cx);
void select_norms(StepProgram &p, const Context &cx);
void join_updates(StepProgram &p, const Context &cx);
void make_views(StepProgram &p, const Context &cx);
void order_kernels(StepProgram &p, const Context &cx);
void sum_over_workers(StepProgram &p, const Context &cx);
void select_dialects(StepProgram &p, const Context &cx);
void plan_memory(StepProgram &p, const Context &cx);

/// Whether a line asks for an update in the kernel of another parameter's update.
inline bool joins(const ir::Line &l) {
    return l.how == ir::Line::with && l.stage.kind == ir::Stage::next && l.target.kind == ir::Stage::next;
}
/// The name of a kernel with the update or the norm of several parameters, after the last: "next(w) and 3 more".
inline std::string name_of_several(const std::string &last, size_t n) {
    return fmt::format("{} and {} more", last, n - 1);
}

/// The forward operation of a call for a chunk of the head.
ir::Op block_op(const StepProgram &p, CallId c, ir::Forward::When when);

}  // namespace cryolite::compiler
