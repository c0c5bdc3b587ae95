#pragma once
// The step schedule: where each stage of a training step is computed, in Halide's words.
//
//   s(net.gelu).compute_with(net.up);         // in up's kernel, both results stored
//   s(net.norm).compute_at(net.up);           // inside up's kernel, never stored whole
//   s(d(net.gelu)).compute_at(d(net.up));     // the same, of adjoints
//   s(d(net.up.W)).compute_at(next(net.up.W));  // the gradient exists only in the update
//   s(next(net.up.W)).compute_at(forward);      // updated at its next use
//   s(next(net.norm.b)).compute_with(next(net.norm.g));  // both updates in one kernel
//   s(net.head).compute_at(net.criterion);      // by blocks of rows, both passes: logits never exist whole
//   s(net.gelu).store_at(forward);              // rematerialised by the backward pass
//   s.budget(2e9);                              // rematerialises until the step fits into so many bytes
//   s(net.up).dialect(onednn);                  // this implementation of the product
//   s(d(net)).distribute(workers);              // added over workers, each updates its shard
//   s(d(net.up.W)).compute_at(next(net.up.W)).where_legal();  // left out with --clip 1 and micro-batches
//   s.lines("loops(up, forward): rows=4");      // lines as text (lines.h), for loops too
//   s.automatic();                              // chooses lines for stages without one; programs without any get it
//   s.clear_loops();                            // automatic loops in place of those that were written
//
// A line that is not legal is refused where it is written or by the pass that carries it out, with the reason and the
// nearest legal line. A line that ends with where_legal() is left out by that pass, and `explain` says why.

#include <map>
#include <set>
#include <string>
#include <typeindex>
#include <vector>

#include "dialects/names.h"
#include "dsl/layer.h"
#include "schedules/automatic.h"
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
    int call = 0;  ///< which call of a layer that the model calls several times, from 1; 0: all calls

    Stage() = default;
    Stage(const Layer &h) : kind(value), layer(&h) {}
    Stage(Kind k, const Layer *h, const Parameter *w) : kind(k), layer(h), parameter(w) {}
    /// This stage of the nth call of a layer: `s(Stage(net.act)[2])`, `s(d(net.act)[2])`. A line for one call takes
    /// precedence over a line for all calls. Errors: the stage is no layer's output or adjoint.
    Stage operator[](int n) const;
    std::string str() const;
    /// Whether this stage and `o` have a value in common: a stage of all calls has the values of each call.
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
    int rows = 0;              ///< of a block, where the target is computed by blocks of rows; 0: as many as pay
    std::string source = {};   ///< where the line was written: "my_model.cpp:12"
    bool where_legal = false;  ///< the line is left out where it is not legal
    int64_t saves = 0;         ///< bytes that a step moves less by the line, where automatic() chose it; else 0
    std::string line() const;  ///< as written after the stage: ".compute_at(next(h.0.up.weight))"
};

class Step {
public:
    explicit Step(const Machine &machine)
        : machine(machine), fallback_loops(automatic_loops(machine)), wider_loops(wider_automatic_loops(machine)) {}
    const Machine &machine;
    /// What computes products where no line says so (--dialect): a schedule need not fuse what that cannot compute.
    std::string dialect_of_products = "halide";

    /// One line of the schedule, applied to the stage it was made for.
    class Line {
    public:
        Line &compute_root() { return place({Placement::root, {}}); }
        /// `rows`: of a block, where the model's head is placed at the loss; 0: as many as pay.
        Line &compute_at(const Stage &g, int rows = 0) { return place({Placement::at, g, rows}); }
        Line &compute_with(const Stage &g) { return place({Placement::with, g}); }
        /// The stage's storage ends with the forward pass: the backward pass rematerialises it. Errors: the stage is no
        /// layer's output, or the place is not `forward`.
        Line &store_at(const Stage &pass);
        /// For d(net): every gradient is added over the workers as soon as it exists, in a fixed order. Each worker
        /// gets a shard of the sum and updates this shard of the parameter, which all workers read. With one worker the
        /// line changes nothing. Errors: another stage.
        Line &distribute(Workers);
        /// The implementation of a stage that is a product; `halide`: the kernel's own loops, and no other.
        Line &dialect(const DialectName &d);
        /// Ends a line that a flag may make illegal (--clip, --precision bf16, --workers, --freeze). The line is then
        /// left out, with a note. Names that the model does not have, and what no flag could make legal, stay errors.
        void where_legal();

    private:
        friend class Step;
        Line(Step &s, const Stage &stage, std::string source) : step(s), stage(stage), source(std::move(source)) {}
        Line &place(Placement p);
        Line &said(bool &where_legal) { return said_ = &where_legal, *this; }
        Step &step;
        Stage stage;
        std::string source;
        bool *said_ = nullptr;  ///< `where_legal` of what the line said; null: nothing yet
    };

    Line operator()(const Stage &stage, std::source_location where = std::source_location::current()) {
        return Line(*this, stage, place_of(where));
    }
    /// The same, of a line that is written elsewhere: "my.schedule:12:1".
    Line line(const Stage &stage, std::string source) { return Line(*this, stage, std::move(source)); }
    /// The bytes that a step may take, parameters and optimizer state among them; 0: any.
    void budget(double bytes) { bytes_allowed = int64_t(bytes); }
    /// Storage of a parameter, its gradient and its optimizer state. Errors: panels of a dimension that the parameter
    /// does not have, or so wide that no kernel can have them.
    void layout(const Parameter &w, Layout l, std::source_location where = std::source_location::current()) {
        layout(w, l, place_of(where));
    }
    /// The same, of a line that is written elsewhere.
    void layout(const Parameter &w, Layout l, const std::string &source);
    /// The loop schedule of kernels of this form whose anchor is a layer of this type:
    /// `s.loops<RmsNorm>(Form::forward, rms_norm)`. It serves whatever device the kernel is compiled for. Where
    /// `machine.gpu()`, give a schedule of blocks and threads, or none: plain loops serve then.
    template <typename LayerType> void loops(Form form, LoopSchedule schedule) {
        loops_of[{std::type_index(typeid(LayerType)), form}] = schedule;
    }

    /// Lines as text (lines.h), which come after those of C++. Errors come when the text is read, and name the place of
    /// this call.
    void lines(const std::string &text, std::source_location where = std::source_location::current()) {
        texts.emplace_back(text, place_of(where));
    }
    /// The value of a tunable (tunables.h) of kernels of this form whose anchor is `layer`, or that update `parameter`.
    struct LoopValue {
        const Layer *layer = nullptr;
        const Parameter *parameter = nullptr;
        Form form = Form::forward;
        std::string name;
        int value = 0;
        std::string source;  ///< where it was written
    };
    /// Sets a tunable. No errors here: a loop schedule checks name and value when its kernel is built.
    void tune(const LoopValue &v);
    /// Whether a line asks for automatic loops of this stage of a layer, by the number `automatic`.
    bool asks_for_automatic(const Layer &l, Form form) const;
    /// Chooses lines for stages that have none: legal fusions, by the bytes of memory traffic that they save. A program
    /// without any line gets this unasked. `explain` shows the lines. Only the order of additions may change.
    void automatic() { chooses = true; }
    /// Forgets all lines so far, automatic() among them.
    void clear();
    /// Whether no line has been written.
    bool empty() const;
    /// Replaces the loops that were written for kernels by automatic ones: the first that compute what they should, or
    /// those that the tunable `automatic` of a line names. Layouts stay, and updates in place have plain loops.
    void clear_loops() { loops_written = false; }

    // What the lines said.
    std::vector<std::pair<Stage, Placement>> placements;
    bool chooses = false;  ///< by automatic()
    struct Asked {
        Stage stage;
        std::string what, source;  ///< name of the dialect, of a line that has one; where it was written
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
    std::vector<std::pair<std::string, std::string>> texts;  ///< what `lines` got, and where each was written
    std::map<std::pair<std::type_index, Form>, LoopSchedule> loops_of;
    bool loops_written = true;  ///< false: by clear_loops()
    /// For kernels whose loops nobody wrote: the first of these that computes what the unscheduled kernel computes.
    std::vector<AutomaticLoops> fallback_loops;
    /// More of these, which take long to compile: only the tunable `automatic` asks for them. Numbered after the above.
    std::vector<AutomaticLoops> wider_loops;
    /// The nth automatic loops, from 0.
    const AutomaticLoops &automatic_way(size_t n) const {
        return n < fallback_loops.size() ? fallback_loops[n] : wider_loops.at(n - fallback_loops.size());
    }
};

}  // namespace cryolite
