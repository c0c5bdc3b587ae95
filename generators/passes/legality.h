#pragma once
// The rules by which a request is not legal, or does not pay. Every rule has a name, and its words are only here.

#include <fmt/format.h>

#include <string>

#include "bundle/error.h"
#include "generators/ir/program.h"

namespace cryolite::compiler {

struct Rule {
    const char *name, *words;
};

/// A rule that forbids something, with its words filled in; empty: nothing does.
struct Reason {
    std::string rule, words;

    Reason() = default;
    template <typename... Values> Reason(const Rule &r, const Values &...values)
        : rule(r.name), words(fmt::format(fmt::runtime(r.words), values...)) {}
    explicit operator bool() const { return !rule.empty(); }
};

namespace rules {

// What a line names.
inline constexpr Rule never_called{"never-called", "the model never calls '{}'; call it, or remove the line"},
    frozen{"frozen",
           "'{}' is frozen ({}), so it has no gradient and no update; remove the line, or train the parameter"};

// The head and its loss in chunks of rows.
inline constexpr Rule head_has_readers{"head-has-readers",
                                       "only the loss may read the output of the head, and only once"},
    loss_reads_head{"loss-reads-head", "the first input of '{}' is not the output of the head"},
    loss_is_mean{"loss-is-mean", "'{}' is not a mean over rows (Layer::mean_of_rows)"},
    rows_differ{"rows-differ", "input {} of '{}' has another number of rows than its first input"},
    head_by_rows{"head-by-rows", "each row of its result must depend on one row of a single input (Layer::by_rows)"},
    head_input_has_readers{"head-input-has-readers", "another layer reads the input of the head too"},
    head_reads_input{"head-reads-input", "the head reads the input of the model, not the output of a layer"},
    blocks_begin{"blocks-begin",
                 "a block must have a multiple of {} rows, so that every block begins where the array of a kernel can"};

// Fusion of values and adjoints.
inline constexpr Rule same_stage{"same-stage", "a stage cannot be placed at or with itself"},
    one_loop_nest{"one-loop-nest", "both stages own a loop nest, and a kernel has only one (a layer owns one unless "
                                   "its nature() is pointwise or rowwise)"},
    whole_rows{"whole-rows", "'{}' needs whole rows of a result that is made in tiles"},
    prologue_is_not_stored{"prologue-is-not-stored", "the loops of '{}' read it many times, and cannot store it"},
    result_is_stored{"result-is-stored", "the model returns it, as its output, loss or metric, so it must be stored"},
    read_elsewhere{"read-elsewhere", "'{}' reads it too, in another kernel, so it must be stored"},
    between{"between",
            "'{}' must run after one of the two stages and before the other, so one kernel cannot hold both"},
    rows_of_blocks{"rows-of-blocks",
                   "the head is computed in blocks of {} rows, and '{}' reads '{}', which has the rows of all blocks"},
    ranks_differ{"ranks-differ", "'{}' sees '{}' in {} dimensions, and another stage of the kernel in {}"},
    waits_for_pass{"waits-for-pass", "only an update can be placed at a pass, as in s(next(w)).compute_at(forward)"},
    reads_nothing{"reads-nothing", "neither of the two reads the other{}"},
    source_gone{"source-gone",
                "'{}' would have to compute it again from '{}', which is not kept after the forward pass"},
    source_unstored{"source-unstored", "'{}' would have to compute it again from '{}', which is never stored"};

// Where updates are.
inline constexpr Rule own_update{"own-update", "a gradient can only be placed inside the update of its own parameter"},
    gradient_read_once{
        "gradient-read-once",
        "the update reads each element of the gradient once, so the line is compute_at, not compute_with"},
    operands_gone{
        "operands-gone",
        "its update runs in the next forward pass, when the arrays that the gradient is computed from are gone"},
    placed_by_gradient{"placed-by-gradient", "an update can be placed with another update or at forward, and in the "
                                             "backward pass by a line for its gradient, s(d(w)).compute_at(next(w))"},
    sum_of_workers{"sum-of-workers",
                   "the gradients of {} workers are added first, and each worker updates its shard of the sum"},
    sum_of_parts{"sum-of-parts", "--deterministic stores the gradients of {} parts of a batch, and adds them in a "
                                 "fixed order before the update"},
    not_a_product{"not-a-product", "the gradient is computed together with others of its layer, or of all rows at "
                                   "once, in loops that hold no update"},
    scattered{"scattered",
              "the gradient adds at places that depend on data, so no element of it is whole before the last row"},
    sum_of_blocks{"sum-of-blocks",
                  "the head is computed in blocks of {} rows, and the gradient is complete only after the last block"},
    sum_of_products{"sum-of-products",
                    "the parameter is used by {} products, and its gradient is complete only after the last of them"},
    scattered_rows{"scattered-rows", "a tied table can add the rows of its lookup inside its update only where it is "
                                     "stored in panels, s.layout(w, panels(n, 1))"},
    scattered_twice{"scattered-twice",
                    "the table is looked up {} times, and inside its update the rows of only one lookup can be added"},
    not_known_finite{
        "not-known-finite",
        "an update is withheld where a gradient is not finite, which is known only after the backward pass"},
    norm_of_sum{"norm-of-sum", "clipping by the global norm needs the norm of the gradient summed over all "
                               "micro-batches, so that sum must be stored"},
    norm_first{
        "norm-first",
        "clipping by the global norm needs the gradient's norm before the first update, and its layer does not write "
        "the gradient as outer products (Layer::factors)"},
    rule_takes_norm_of_sum{"rule-takes-norm-of-sum",
                           "the optimizer '{}' needs the norm of the gradient before it changes the first element, so "
                           "the sum over micro-batches must be stored"},
    rule_takes_norm{"rule-takes-norm",
                    "the optimizer '{}' needs the norm of the gradient before it changes the first element, and the "
                    "layer does not write the gradient as outer products (Layer::factors)"},
    updated_elsewhere{"updated-elsewhere", "the update of '{}' is already placed {}"},
    other_update{"other-update", "the updates of '{}' and '{}' differ in their {}"},
    rule_takes_own_norm{
        "rule-takes-own-norm",
        "the optimizer '{}' takes norms of each parameter by itself, so their updates cannot share a kernel"},
    joint_too_large{
        "joint-too-large",
        "the joint array of both updates would have 2^31 elements or more, and the array of a kernel has less"},
    old_weight{"old-weight", "'{}' reads the weight as it was before its update"},
    dialect_makes_gradient{"dialect-makes-gradient",
                           "{}: {} computes the gradient, and its loops cannot hold an update"},
    never_pays{"never-pays", "a fused update is not known to be faster for a {}"},
    too_many_rows{"too-many-rows", "the gradient is a sum over {} rows, and fusing its update pays only up to {}"};

// Views.
inline constexpr Rule view_apart{"view-apart", "it is a copy: its elements do not lie one after the other in '{}'"},
    view_format{"view-format", "it is a copy: it is stored as {}, and '{}' as {}"},
    view_begins{"view-begins",
                "it is a copy: it begins {} bytes into '{}', and an array of a kernel must begin at a multiple of {}"},
    view_keeps{"view-keeps", "it is a copy: as a part it would keep all of '{}' for the backward pass"};

// Dialects.
inline constexpr Rule no_product{
    "no-product", "it is not known to be a matrix product or a convolution, and a dialect computes only those"},
    in_loops_of{"in-loops-of",
                "it is computed in the loops of '{}', and a dialect computes only the product that owns the loops"},
    not_in_step{"not-in-step", "it is not a value, adjoint or gradient that this step computes"},
    dialect_cannot{"dialect-cannot", "{}"};

}  // namespace rules

/// An adjoint that a line names, but that the step does not compute because no trained parameter needs it; null: none.
inline const ir::Stage *without_adjoint(const ir::Program &p, const ir::Line &l) {
    for (const ir::Stage *s : {&l.stage, &l.target})
        if (s->kind == ir::Stage::adjoint && s->layer && p.layers[s->layer].no_adjoint) return s;
    return nullptr;
}
/// Marks a line as unneeded, because the step does not compute the adjoint that it names.
inline void excuse(ir::Line &l, const ir::Stage &adjoint) {
    l.verdict = {.is = ir::Verdict::unneeded,
                 .words = adjoint.text + " is not computed: all parameters up to there are frozen"};
}

struct RefusedLine : Error {
    using Error::Error;
};

/// "gpt.cpp:12: s(wte).compute_root()"
inline std::string words_of(const ir::Line &l) {
    return fmt::format("{}s({}){}", l.source.empty() ? "" : l.source + ": ", l.stage.text, l.placement());
}

/// Refuses a line: throws with the line's source, the line, why it is not legal and the nearest legal line.
[[noreturn]] inline void refuse(ir::Line &l, const Reason &why, const std::string &nearest = "") {
    l.verdict.is = ir::Verdict::refused, l.verdict.rule = why.rule, l.verdict.words = why.words;
    l.verdict.nearest = nearest.empty() ? "" : fmt::format("s({}){}", l.stage.text, nearest);
    const std::string legal = nearest.empty() ? "" : "; the nearest legal line is " + l.verdict.nearest;
    throw RefusedLine(fmt::format("{} is refused: {}{}", words_of(l), why.words, legal));
}

/// Calls `act`, which obeys a line. A line that ends with .where_legal() is left out where it is refused. Returns
/// whether the line is obeyed.
template <typename Act> bool obey(ir::Line &l, const Act &act) {
    try {
        act();
        return true;
    } catch (const RefusedLine &) {
        if (!l.where_legal) throw;
        l.verdict.is = ir::Verdict::left_out;
        return false;
    }
}
/// The note that a stage gets of a line that is left out.
inline std::string note_of(const ir::Line &l) {
    return fmt::format("s({}){} is left out: {}", l.stage.text, l.placement(), l.verdict.words);
}

}  // namespace cryolite::compiler
