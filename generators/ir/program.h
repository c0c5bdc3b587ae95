#pragma once
// A training step as data: the model's calls, arrays, operations, and the schedule's requests with their verdicts.

#include <algorithm>
#include <map>
#include <set>

#include "bundle/entries.h"
#include "bundle/param_group.h"
#include "dsl/nature.h"
#include "generators/ir/op.h"

namespace cryolite::ir {

/// What passes know of a layer.
struct Layer {
    std::string path, kind;
    Nature nature = Nature::anchor;
    bool scatters = false, by_rows = false, mean_of_rows = false;          ///< as the layer declares them
    bool half_inputs = false, half_output = false, half_products = false;  ///< its line of the cast table
    std::string casts_why = {};                                            ///< which line that is
    std::vector<ParamId> parameters = {};                                  ///< its own, then those that it shares
    std::vector<ParamId> factored = {};  ///< parameters whose gradients it writes as outer products
    struct Window {
        int size, stride, padding, dilation, groups;
    };
    struct Product {
        ParamId weight, bias;
        int out_dim;                        ///< the weight's dimension that runs over outputs
        std::optional<Window> window = {};  ///< of a convolution
    };
    std::optional<Product> product = {};
    bool remat = false;       ///< a line of the schedule ends its storage with the forward pass
    bool no_adjoint = false;  ///< its result needs none, because no parameter in it or before it is trained

    bool factors(ParamId w) const;
};

struct Call {
    LayerId layer;
    std::vector<ValueId> inputs;
    ValueId output;
    double flops = 0, input_grad_flops = 0, param_grad_flops = 0;
    std::vector<int> input_ranks = {};  ///< in how many dimensions the layer sees each input; 0: any
    int output_rank = 0;
    std::vector<bool> has_rows = {};  ///< true: the input has a row for each of the output's; false: all rows share it
};

struct Parameter {
    std::string path, name;
    Shape shape = {};
    bool narrow = false;          ///< products read it in 16 bits, and `master` is kept beside
    std::string format_why = {};  ///< why it is narrow or not; empty: the step is fp32
    bool deferred = false;        ///< its update waits for its next use
    std::string frozen = {};  ///< what says that it is not trained, so that it has only a value; empty: it is trained
    bool state = false;       ///< it is a state of its layer, which computes its next value: not trained, but written
    int group = 0;            ///< which copy of the step's scalars its update reads
    ValueId value = {}, gradient = {};
    ValueId master = {};  ///< of a narrow one: the low half of its split fp32 master, or the fp32 master itself
    std::vector<ValueId> states = {};
    std::vector<ValueId> shares = {};  ///< the gradient of each worker, where the update adds them itself
    std::vector<Shard> shards = {};
    struct Slots {
        int first = 0, count = 0;
    };
    Slots gradient_norm = {}, weight_norm = {};  ///< entries of the norms whose sum is the squared norm

    bool trained() const { return frozen.empty(); }
};

/// A group of parameters with a rate or decay of their own: a factor of the usual value, or another value.
struct ParamGroup {
    std::optional<GroupValue> lr = {}, decay = {};
    std::vector<std::string> texts = {};  ///< what was asked for
};

/// Operations that share a loop nest.
struct Kernel {
    std::string name = {};
    std::string pass = {};                             ///< forward, backward, update, rematerialise
    std::vector<OpId> ops = {};                        ///< in order
    OpId anchor = {};                                  ///< owns the loop nest; none: it is pointwise
    std::vector<OpId> side_products = {};              ///< its other operations that alone would own a loop nest
    std::string dialect = "halide", dialect_why = {};  ///< of a product: what computes it, and why
    std::vector<std::string> dialects = {};  ///< of a product that Halide computes: dialects that could compute it
    ValueId workspace = {};                  ///< memory that its dialect uses while the kernel runs
};

/// What a line of the schedule names: a layer's output h, its adjoint d(h), d(w), next(w), or a pass.
struct Stage {
    enum Kind { value, adjoint, gradient, next, pass } kind = value;
    LayerId layer = {};
    ParamId parameter = {};
    int call = 0;           ///< which call of its layer, from 1; 0: all calls
    std::string text = {};  ///< as it is written
};

/// What came of a request.
struct Verdict {
    enum Is {
        open,      ///< no pass has decided yet
        legal,     ///< `by` are the operations that it has placed
        unneeded,  ///< the stage is not in this step, or is placed so anyway: `words` say why
        refused,   ///< by the rule of the name `rule`
        left_out,  ///< refused, but the line ends with .where_legal(); `by` are the operations where it was legal
    } is = open;
    std::vector<OpId> by = {};
    std::string rule = {}, words = {};
    std::string nearest = {};  ///< of a refused line, the nearest legal one: "s(h).compute_root()"
};

/// A request of the step schedule, of the model (`freeze`) or of a flag.
struct Line {
    enum How { root, at, with, store, dialect, distribute, freeze } how = root;
    Stage stage = {}, target = {};
    int rows = 0;  ///< rows of a chunk, where the target is computed chunk by chunk
    std::string dialect_name = {};
    std::string source = {};  ///< where it is written, or the flag: "gpt.cpp:12", "--freeze h.*"
    bool where_legal = false;
    int64_t saves = 0;  ///< bytes that it saves in a step, if it was chosen for that; else 0
    Verdict verdict = {};

    /// Whether it says where a stage is computed.
    bool places() const { return how == root || how == at || how == with; }
    bool open() const { return verdict.is == Verdict::open; }
    bool left_out() const { return verdict.is == Verdict::left_out; }
    /// Records that the line has placed an operation.
    void met(OpId by);
    /// As written after the stage: ".compute_at(next(h.0.up.weight))"
    std::string placement() const { return placement(how); }
    std::string placement(How other) const;
};

/// What the runtime may call: the operations of a plan, in order.
struct Entry {
    enum Mode { always, training, evaluation } mode = always;
    bool holds_forward = false;         ///< it contains the forward pass; all other entries run after one that does
    bool repeats = false;               ///< its updates are those of another entry, run by themselves
    std::vector<ValueId> results = {};  ///< values that are read after its last kernel has run
    std::vector<OpId> ops = {};
    std::vector<KernelId> kernels = {};  ///< once the pass `order` has run
};

/// Where the activations of a step live in one arena.
struct MemoryPlan {
    std::map<ValueId, int64_t> offset;  ///< bytes from the start of the arena
    int64_t bytes = 0;                  ///< size of the arena
    int64_t unshared = 0;               ///< what the same values would take without sharing
};

/// The head and its loss in chunks of rows. The model's loss is the mean of the chunks' losses.
struct ChunkedHead {
    LayerId head = {}, loss = {};
    int rows = 0;                             ///< of a chunk; 0: the head is computed whole
    CallId whole_head = {}, whole_loss = {};  ///< calls for all rows: the head's runs in `predict`, the loss's never
    std::set<CallId> calls = {};

    /// Whether a line asks for such chunks.
    bool takes(const Line &l) const {
        return head && loss && l.stage.kind == Stage::value && l.stage.layer == head && l.target.kind == Stage::value &&
               l.target.layer == loss;
    }
};

/// The loss of only those rows that count. Evaluation needs it, because its last batch is padded.
struct Evaluation {
    ValueId loss = {}, row_weights = {};
    std::vector<ValueId> terms = {};  ///< the same for each of the program's terms
    std::string hindrance = {};       ///< why there is none
};

/// What frozen parameters save in a step.
struct Spared {
    int64_t state_bytes = 0, gradient_bytes = 0;
    double flops = 0;  ///< of a micro-batch
    bool operator==(const Spared &) const = default;
};

struct Program {
    Table<Layer, LayerId> layers;
    Table<Call, CallId> calls;
    Table<Parameter, ParamId> parameters;
    Table<Value, ValueId> values;  ///< those of the model first
    Table<Op, OpId> ops;
    Table<Kernel, KernelId> kernels;
    std::map<std::string, Entry> entries;
    std::vector<Line> lines;

    /// A number that is reported beside the loss: a term of it, named by the path of its layer, or a metric.
    struct Term {
        std::string name;
        ValueId value;
    };
    ValueId loss, output, scalars, norms, scale;
    std::vector<Term> terms;  ///< those of the loss where it is made of several, then metrics
    ValueId count;            ///< how many updates were done, and withheld; none: no update can be withheld
    /// The loss's scale, the updates in a row since it last changed or was too large, and the steps in a row that have
    /// left it below 1; none: the loss is not scaled.
    struct LossScaler {
        ValueId scale, good_steps, low_steps;
        explicit operator bool() const { return bool(scale); }
    } loss_scaler;
    std::vector<std::string> scalar_names;  ///< step, loss_scale, clip, those of the loss's scale, the optimizer's
    std::vector<double> scalar_values;
    std::vector<ParamGroup> groups;  ///< the first has all parameters that are in no other; empty: there is only that
    int scalars_apart = 0;           ///< entries from a group's scalars to those of the next
    int norms_apart = 1;             ///< entries from one norm to the next, so that a device can begin an array there
    int gradient_norms = 0;          ///< number of entries of gradients' norms, which come first among the norms
    int workers = 1;
    int parts = 0;         ///< parts of a batch whose gradients are added in a tree; 0: one a worker, added in "step"
    bool guarded = false;  ///< an update is withheld where a gradient is not finite
    ChunkedHead chunks;
    Evaluation evaluation;
    Spared spared;
    MemoryPlan memory;

    /// The entry that ends a step's backward pass.
    const char *backward_entry() const { return parts ? entry::first : entry::step; }
    /// The loss, its terms and the metrics.
    std::vector<ValueId> losses() const {
        std::vector<ValueId> list = {loss};
        for (const Term &t : terms) list.push_back(t.value);
        return list;
    }
    /// Whether the runtime reads a value.
    bool is_result(ValueId v) const {
        return v == loss || v == output || std::ranges::any_of(terms, [v](const Term &t) { return t.value == v; });
    }
    /// Which call of its layer this is, from 1, and how many there are. Calls for chunks of the head do not count.
    std::pair<int, int> number_of(CallId c) const;
    const Layer &layer(CallId c) const { return layers[calls[c].layer]; }
    /// The value whose array holds the elements of a value: itself, or the one that it is a part of.
    ValueId base(ValueId v) const { return values[v].part_of ? values[v].part_of : v; }
    /// The joint array that holds a state, or the value itself. A kernel of several updates reads joint arrays.
    ValueId state_in(ValueId v) const { return values[v].is_state() ? base(v) : v; }
    /// The value that an operation reads for a value of the model: in the backward pass, its rematerialised copy.
    ValueId operand(const Op &op, ValueId v) const { return in_backward(op) && values[v].remat ? values[v].remat : v; }
    /// The parameters that are trained.
    std::vector<ParamId> trained() const;
    /// Whether the compiler makes a kernel's code: false for a Reduce, which the runtime does.
    bool is_compiled(const Kernel &k) const { return !is<Reduce>(ops[k.ops.at(0)]); }
    /// Whether a kernel is one update of several parameters, whose arrays are parts of joint ones.
    bool joins_updates(const Kernel &k) const {
        return k.ops.size() > 1 && std::ranges::all_of(k.ops, [&](OpId id) { return is<Update>(ops[id]); });
    }
    /// How much of its inputs an element of an operation's result needs.
    Nature nature(const Op &op) const;
    bool is_sum(CallId c) const { return layer(c).nature == Nature::sum; }
};

/// Sets the versions of all states that an entry's operations read and write, counted from the entry's beginning.
void number_versions(Program &p, Entry &e);

}  // namespace cryolite::ir
