#pragma once
// The step schedule: where each stage of a training step is computed, in Halide's words.
//
//   s(net.gelu).compute_with(net.up);         // in up's kernel, both results stored
//   s(net.norm).compute_at(net.up);           // inside up's kernel, never stored whole
//   s(d(net.gelu)).compute_at(d(net.up));     // the same, of adjoints
//   s(d(net.up.W)).compute_at(next(net.up.W));  // the gradient exists only in the update
//   s(next(net.up.W)).compute_at(forward);      // updated at its next use
//   s(next(net.norm.b)).compute_with(next(net.norm.g));  // both updates in one kernel
//   s(net.head).compute_at(net.criterion);      // block of rows by block of rows, to and fro: logits never exist whole
//   s(net.gelu).store_at(forward);              // rematerialised by the backward pass
//   s.budget(2e9);                              // rematerialises until the step fits into so many bytes
//   s(net.up).dialect(onednn);                  // this implementation of the product
//   s(d(net)).distribute(workers);              // added over workers, each updates its shard
//   s(d(net.up.W)).compute_at(next(net.up.W)).where_legal();  // or not, with --clip 1 and micro-batches
//   s.lines("loops(up, forward): rows=4");      // lines as text (lines.h), of loops too
//   s.automatic();                              // chooses lines where there are none; programs without any get it
//   s.clear_loops();                            // no loops that were written: an autoscheduler's
//
// A line that is not legal is refused where it is written or by the pass that obeys it, with the reason and the nearest
// legal line; one that ends with where_legal() is left out by that pass, and `explain` says why.

#include <map>
#include <set>
#include <string>
#include <typeindex>
#include <vector>

#include "dialects/names.h"
#include "dsl/layer.h"
#include "schedules/cpu/fallback.h"
#include "schedules/group.h"
#include "schedules/layout.h"

namespace cryolite {

class Model;

/// A value of the step: a layer's output h, its adjoint d(h), a gradient d(w), an updated parameter next(w), and
/// d(net), all gradients of a model.
struct Stage {
    enum Kind { value, adjoint, gradient, next, pass, gradients } kind = value;
    const Layer *layer = nullptr;
    const Parameter *parameter = nullptr;
    int call = 0;  ///< of a layer that the model calls several times: of which call, from 1; 0: of all

    Stage() = default;
    Stage(const Layer &h) : kind(value), layer(&h) {}
    Stage(Kind k, const Layer *h, const Parameter *w) : kind(k), layer(h), parameter(w) {}
    /// Of the nth call of a layer: `s(Stage(net.act)[2])`, `s(d(net.act)[2])`. Its line goes before one of all
    /// calls. Errors: it is no layer's output or adjoint.
    Stage operator[](int n) const;
    std::string str() const;
    /// Whether it and another are, or hold, the same value.
    bool meets(const Stage &o) const {
        return kind == o.kind && layer == o.layer && parameter == o.parameter && (!call || !o.call || call == o.call);
    }
    bool operator==(const Stage &) const = default;
};

/// The adjoint of a layer's output.
inline Stage d(const Layer &h) { return {Stage::adjoint, &h, nullptr}; }
/// The gradient of a parameter.
inline Stage d(const Parameter &w) { return {Stage::gradient, nullptr, &w}; }
/// The gradients of all parameters of a model.
inline Stage d(const Model &) { return {Stage::gradients, nullptr, nullptr}; }
/// The updated parameter.
inline Stage next(const Parameter &w) { return {Stage::next, nullptr, &w}; }

/// The forward pass: of the next step, as the place of an update.
inline const Stage forward{Stage::pass, nullptr, nullptr};

/// The data-parallel replicas of a run, as many as the command says.
inline constexpr struct Workers {
} workers{};

struct Placement {
    enum How { root, at, with } how = root;
    Stage target;
    int rows = 0;              ///< of a block, where the target's loops are over blocks of rows; 0: as many as pay
    std::string source = {};   ///< where the line was written: "my_model.cpp:12"
    bool where_legal = false;  ///< it is left out where it is not legal
    int64_t saves = 0;         ///< bytes that a step moves less, of a line that automatic() chose; else 0
    std::string line() const;  ///< as written after the stage: ".compute_at(next(h.0.up.weight))"
};

class Step {
public:
    explicit Step(const Machine &machine) : machine(machine) {}
    const Machine &machine;

    /// One line of the schedule, applied to the stage it was made for.
    class Line {
    public:
        Line &compute_root() { return place({Placement::root, {}}); }
        /// Of the model's head, at the loss: block of so many rows by block of rows.
        Line &compute_at(const Stage &g, int rows = 0) { return place({Placement::at, g, rows}); }
        Line &compute_with(const Stage &g) { return place({Placement::with, g}); }
        /// Its storage ends with the forward pass: the backward pass rematerialises it. A layer's output,
        /// and `forward`.
        Line &store_at(const Stage &pass);
        /// Of d(net): every gradient is added over the workers as soon as it exists, in a fixed order, each worker
        /// having its part of the sum; it updates that part of the parameter, which all read.
        /// With one worker it changes nothing.
        Line &distribute(Workers);
        /// Another implementation of a stage that is a product, or `halide` and no other.
        Line &dialect(const DialectName &d);
        /// Ends a line that a flag may make illegal (--clip, --precision bf16, --workers, --freeze): it is left out
        /// then, with a note. Names that the model does not have, and what no flag could make legal, stay errors.
        void where_legal();

    private:
        friend class Step;
        Line(Step &s, const Stage &stage, std::string source) : step(s), stage(stage), source(std::move(source)) {}
        Line &place(Placement p);
        Line &said(bool &where_legal) { return said_ = &where_legal, *this; }
        Step &step;
        Stage stage;
        std::string source;
        bool *said_ = nullptr;  ///< of what the line has said so far
    };

    Line operator()(const Stage &stage, std::source_location where = std::source_location::current()) {
        return Line(*this, stage, place_of(where));
    }
    /// The same, of a line that is written elsewhere: "my.schedule:12:1".
    Line line(const Stage &stage, std::string source) { return Line(*this, stage, std::move(source)); }
    /// The bytes that a step may take, parameters and optimizer state among them; 0: any.
    void budget(double bytes) { bytes_allowed = int64_t(bytes); }
    /// Storage of a parameter, its gradient and its optimizer state. Errors: panels of a dimension that it has not,
    /// or so wide that no kernel can have them.
    void layout(const Parameter &w, Layout l, std::source_location where = std::source_location::current()) {
        layout(w, l, place_of(where));
    }
    /// The same, of a line that is written elsewhere.
    void layout(const Parameter &w, Layout l, const std::string &source);
    /// The loop schedule of kernels of this form whose anchor is a layer of this type:
    /// `s.loops<RmsNorm>(Form::forward, rms_norm)`. It serves whatever device the kernel is compiled for: where
    /// `machine.gpu()`, give one of blocks and threads, or none, and plain loops serve.
    template <typename LayerType> void loops(Form form, LoopSchedule schedule) {
        loops_of[{std::type_index(typeid(LayerType)), form}] = schedule;
    }

    /// Lines as text, which come after those of C++: lines.h has what they are. Errors come when they are read, and
    /// name this place.
    void lines(const std::string &text, std::source_location where = std::source_location::current()) {
        texts.emplace_back(text, place_of(where));
    }
    /// A number of the loop schedule of kernels of this form whose anchor is a layer, or that update a parameter.
    struct LoopValue {
        const Layer *layer = nullptr;
        const Parameter *parameter = nullptr;
        Form form = Form::forward;
        std::string name;
        int value = 0;
        std::string source;  ///< where it was written
    };
    /// Errors: none here; whether a kernel has such a number, and this value, its loop schedule says when it is built.
    void tune(const LoopValue &v);
    /// Lines are chosen for stages that have none: legal fusions, by the bytes of memory traffic that they save; a
    /// program without any line gets them unasked. `explain` shows them. Only the order of additions may change.
    void automatic() { chooses = true; }
    /// Forgets all lines so far, automatic() among them.
    void clear();
    /// Whether no line has been written.
    bool empty() const;
    /// No kernel has the loops that were written for it: each has the first automatic ones that compute what it should,
    /// or those that a line's number `automatic` names. Layouts stay, and updates in place have plain loops.
    void clear_loops() { loops_written = false; }

    // What the lines said.
    std::vector<std::pair<Stage, Placement>> placements;
    bool chooses = false;  ///< by automatic()
    struct Asked {
        Stage stage;
        std::string what, source;  ///< the dialect, where it is one; where the line was written
        bool where_legal = false;
    };
    std::vector<Asked> rematerialised;  ///< by `store_at`
    std::vector<Asked> distributed;     ///< one, or none
    int64_t bytes_allowed = 0;
    std::vector<Asked> dialects;
    struct ChosenLayout {
        Layout layout;
        std::string source;  ///< where the line was written
    };
    std::map<const Parameter *, ChosenLayout> layouts;
    std::vector<LoopValue> loop_values;
    std::vector<std::pair<std::string, std::string>> texts;  ///< of `lines`, and where each was written
    std::map<std::pair<std::type_index, Form>, LoopSchedule> loops_of;
    bool loops_written = true;  ///< false: by clear_loops()
    /// For kernels whose loops nobody wrote: the first of these that computes what the unscheduled kernel computes.
    std::vector<AutomaticLoops> fallback_loops = automatic_loops();
    /// What only a line's number `automatic` asks for, as they take long to compile: numbered after those.
    std::vector<AutomaticLoops> wider_loops = wider_automatic_loops();
    /// The nth automatic loops, from 0.
    const AutomaticLoops &automatic_way(size_t n) const {
        return n < fallback_loops.size() ? fallback_loops[n] : wider_loops.at(n - fallback_loops.size());
    }
};

}  // namespace cryolite
