#pragma once
// Why something that was asked for is not legal, or does not pay: every rule has a name,
// and its words stand here alone.

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

// The head and its loss by blocks of rows.
inline constexpr Rule head_has_readers{"head-has-readers", "another layer reads it too"},
    loss_reads_head{"loss-reads-head", "'{}' does not read it"},
    loss_is_mean{"loss-is-mean", "'{}' is not a mean over rows (Layer::mean_of_rows)"},
    rows_differ{"rows-differ", "input {} of '{}' has other rows than the first"},
    head_by_rows{"head-by-rows", "its rows depend on each other (Layer::by_rows)"},
    head_input_has_readers{"head-input-has-readers", "another layer reads what it reads"},
    head_reads_input{"head-reads-input", "it reads the model's input"},
    blocks_begin{"blocks-begin", "blocks begin where kernels can, at multiples of {} rows"};

// Fusion of values and adjoints.
inline constexpr Rule same_stage{"same-stage", "it is the same stage"},
    one_loop_nest{"one-loop-nest",
                  "both own a loop nest, as every layer does whose nature() is not pointwise or rowwise"},
    whole_rows{"whole-rows", "'{}' needs whole rows of a result that is made in tiles"},
    prologue_is_not_stored{"prologue-is-not-stored", "the loops of '{}' read it many times, and cannot store it"},
    result_is_stored{"result-is-stored", "it is a result of the model"},
    read_elsewhere{"read-elsewhere", "'{}' reads it too"},
    between{"between", "'{}' comes after one of the two and before the other"},
    ranks_differ{"ranks-differ", "'{}' sees '{}' in {} dimensions, and its neighbour in {}"},
    waits_for_pass{"waits-for-pass", "only updates wait for a pass, as s(next(w)).compute_at(forward)"},
    reads_nothing{"reads-nothing", "neither of the two reads the other{}"},
    source_gone{"source-gone", "'{}' computes it again, from '{}', which is gone after the forward pass"},
    source_unstored{"source-unstored", "'{}' computes it again, from '{}', which is never stored"};

// Where updates are.
inline constexpr Rule own_update{"own-update", "a gradient can only be placed inside the update of its own parameter"},
    gradient_read_once{"gradient-read-once", "the update reads each element of the gradient once"},
    operands_gone{"operands-gone", "its update is placed at forward, when the operands of the gradient are gone"},
    placed_by_gradient{"placed-by-gradient",
                       "an update is placed by placing its gradient, with another update, or at forward"},
    sum_of_workers{"sum-of-workers",
                   "the gradients of {} workers are added first, and each worker updates its shard of the sum"},
    sum_of_parts{"sum-of-parts",
                 "--deterministic adds the gradients of {} parts of a batch in a tree, and the update reads their sum"},
    not_a_product{"not-a-product", "the gradient is computed together with others of its layer, or of all rows at "
                                   "once, in loops that hold no update"},
    scattered{"scattered",
              "the gradient adds at places that depend on data, so no element of it is whole before the last row"},
    sum_of_blocks{"sum-of-blocks", "the head's rows come in blocks of {}, and the gradient is the sum of theirs"},
    sum_of_products{"sum-of-products", "the parameter is used by {} products, and its gradient is their sum"},
    scattered_rows{"scattered-rows", "rows scattered into a tied table need it in panels"},
    scattered_twice{"scattered-twice",
                    "rows are looked up in the table {} times, and its product adds those of one lookup"},
    not_known_finite{"not-known-finite",
                     "an update is withheld where a gradient is not finite, which is not yet known"},
    norm_of_sum{
        "norm-of-sum",
        "clipping by the global norm needs the norm of the sum over micro-batches, which has to be stored for that"},
    norm_first{
        "norm-first",
        "clipping by the global norm needs the gradient's norm before the first update, and its layer does not write "
        "the gradient as outer products (Layer::factors)"},
    rule_takes_norm_of_sum{"rule-takes-norm-of-sum",
                           "the rule '{}' takes the gradient's norm before it changes the first element, and "
                           "that of the sum over micro-batches needs the sum stored"},
    rule_takes_norm{"rule-takes-norm",
                    "the rule '{}' takes the gradient's norm before it changes the first element, and "
                    "its layer does not write the gradient as outer products (Layer::factors)"},
    updated_elsewhere{"updated-elsewhere", "the update of '{}' is {}"},
    other_update{"other-update", "the updates of '{}' and '{}' differ in their {}"},
    rule_takes_own_norm{"rule-takes-own-norm", "the rule '{}' takes norms of one parameter"},
    joint_too_large{"joint-too-large", "side by side their arrays would have 2^31 elements or more"},
    old_weight{"old-weight", "'{}' reads the weight as it was before its update"},
    dialect_makes_gradient{"dialect-makes-gradient", "{}: {} makes the gradient, and has no updates in its loops"},
    never_pays{"never-pays", "fusing is not known to pay for a {}"},
    too_many_rows{"too-many-rows", "{} rows: fusing pays up to {}"};

// Views.
inline constexpr Rule view_apart{"view-apart", "it is a copy: its elements do not lie one after the other in '{}'"},
    view_format{"view-format", "it is a copy: it is {}, and '{}' is {}"},
    view_begins{"view-begins", "it is a copy: it begins {} bytes into '{}', and a kernel's arrays at multiples of {}"},
    view_keeps{"view-keeps", "it is a copy: as a part it would keep all of '{}' for the backward pass"};

// Dialects.
inline constexpr Rule no_product{"no-product", "it is no product"},
    in_loops_of{"in-loops-of", "'{}' owns the loops that it is in"},
    not_in_step{"not-in-step", "it is no value, adjoint or gradient of this step"},
    dialect_cannot{"dialect-cannot", "{}"};

}  // namespace rules

/// The adjoint that a line names and the step has not, as no parameter that is trained needs it; null: it names none.
inline const ir::Stage *without_adjoint(const ir::Program &p, const ir::Line &l) {
    for (const ir::Stage *s : {&l.stage, &l.target})
        if (s->kind == ir::Stage::adjoint && s->layer && p.layers[s->layer].no_adjoint) return s;
    return nullptr;
}
/// A line whose adjoint the step has not asks for nothing.
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

/// Throws: where the line is written, the line, and why it is not legal.
[[noreturn]] inline void refuse(ir::Line &l, const Reason &why, const std::string &nearest = "") {
    l.verdict.is = ir::Verdict::refused, l.verdict.rule = why.rule, l.verdict.words = why.words;
    l.verdict.nearest = nearest.empty() ? "" : fmt::format("s({}){}", l.stage.text, nearest);
    const std::string legal = nearest.empty() ? "" : "; the nearest legal line is " + l.verdict.nearest;
    throw RefusedLine(fmt::format("{} is refused: {}{}", words_of(l), why.words, legal));
}

/// Obeys a line. One that ends with .where_legal() is left out where it is refused; false then.
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
/// What a stage says of it, wherever the line is written.
inline std::string note_of(const ir::Line &l) {
    return fmt::format("s({}){} is left out: {}", l.stage.text, l.placement(), l.verdict.words);
}

}  // namespace cryolite::compiler
