#pragma once
// A training step between the trace and the kernels: buffers, stages that read and write them, kernels
// that hold stages, plans that list kernels. Plain data: no Halide Func exists here.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dsl/model.h"
#include "dsl/optimizer.h"
#include "schedules/step_schedule.h"

namespace cryolite::compiler {

enum class Role { input, parameter, state, gradient, activation, scalars, norms, scale, remainder, count, share };
const char *role_name(Role role);

struct Buffer {
    std::string name;
    Role role;
    Halide::Type type;
    Shape shape;      ///< logical, innermost first
    Layout layout;    ///< of parameters, their gradients and state
    const Parameter *parameter = nullptr;
    bool stored = true;  ///< false: exists only inside kernels
    int worker = -1;     ///< of a share: whose gradient it is
    int part_of = -1;    ///< rows of this buffer, where they are
    int64_t begin = 0;   ///< elements before them

    Shape storage() const { return layout.storage(shape); }
    int64_t bytes() const { return storage().size() * type.bytes(); }
};

enum class Part { forward, d_input, d_parameter, next, norm, scale, sum };

struct StageSpec {
    Part part;
    std::string name;    ///< "h.0.mlp.c_fc", "d(h.0.mlp.c_fc)", "d(h.0.mlp.c_fc.weight)", "next(...)"
    int call = -1;       ///< index into the graph's calls
    int index = 0;       ///< which input or which parameter of the call's layer
    const Parameter *parameter = nullptr;
    int dy = -1;                ///< d_input, d_parameter, norm: adjoint of the call's output
    int call2 = -1, dy2 = -1;   ///< norm without the gradient: the other of the two calls whose shares are multiplied
    std::vector<int> addends{}; ///< buffers added to the result
    bool accumulate = false;    ///< d_parameter: adds to the gradient that its buffer holds
    bool late = false;          ///< forward: in the plans of the backward pass, block by block
    bool again = false;         ///< forward: builds a value again for the backward pass
    bool scaled = false;        ///< next: gradients are multiplied by the clipping scale
    bool of_weight = false;     ///< norm: of the parameter, for rules that take it
    bool bounded = false;       ///< norm: a bound stands for it, as only whether all is finite counts
    int worker = -1;            ///< next, norm: whose part of the parameter's storage it is, -1: all of it in every worker
    int64_t begin = 0, count = 0;  ///< that part, in elements
    std::vector<int> reads{};   ///< buffers that it really reads, known after `analyse`
    bool analysed = false;
    std::vector<int> writes{};  ///< buffers: one, but for next (the parameter, then its states)
    std::string placed = "root", why{};  ///< why: of updates, what decided it
    double flops = 0;
};

struct Kernel {
    std::string name;
    std::string pass;         ///< forward, backward, update
    std::vector<int> stages;  ///< in order
    int anchor = -1;          ///< the stage that owns the loop nest, -1: pointwise
    std::string dialect = "halide", dialect_why = {};  ///< of a product: what computes it, and why
    std::vector<std::string> dialects = {};            ///< of a product of Halide's: what else may
};

struct StepProgram {
    Graph graph;
    std::vector<Buffer> buffers;
    std::vector<StageSpec> stages;
    std::vector<Kernel> kernels;
    std::map<std::string, std::vector<int>> plans;  ///< name -> kernels in order
    std::vector<int> value_buffer;                  ///< graph value -> buffer
    std::vector<int> value_writer;                  ///< graph value -> forward stage, -1
    std::vector<int> value_again;                   ///< graph value -> where the backward pass builds it again, -1
    std::map<const Parameter *, int> parameter_buffer, gradient_buffer;
    std::map<const Parameter *, std::vector<int>> state_buffers;
    std::map<const Parameter *, int> remainder_buffer;  ///< of weights kept in halves: the lower ones
    struct Norms {
        int first = 0, count = 0;  ///< of the gradient: entries of `norms` whose sum is its squared norm
        int weight = -1, weights = 0;  ///< of the parameter: the same
    };
    std::map<const Parameter *, Norms> norms_of;
    int norms_apart = 1;               ///< entries between one norm and the next, zero: where a device can begin an array
    int gradient_norms = 0;            ///< the first entries of `norms`
    /// With several workers, where the update adds their gradients itself: these, by worker.
    std::map<const Parameter *, std::vector<int>> share_buffers;
    std::set<const Parameter *> lazy;  ///< updated at forward, at their next use
    int scalars = -1, norms = -1, scale = -1, loss = -1, output = -1;
    int count = -1;  ///< updates done, and withheld; -1: none can be withheld
    std::vector<std::string> scalar_names;  ///< step, loss_scale, clip, then the optimizer's
    std::vector<double> scalar_values;
    Optimizer *optimizer = nullptr;
    const Step *schedule = nullptr;
    int workers = 1;
    Format format = fp32;

    /// Whether an update is withheld where a gradient is not finite.
    bool guarded() const { return format == bf16; }

    /// Whether updates wait for the norms of gradients.
    bool takes_norms(bool clip) const { return clip || guarded() || optimizer->takes(Norm::gradient); }

    /// The head and its loss by blocks of rows: the model's loss is the mean of theirs.
    struct Blocks {
        const Layer *head = nullptr, *loss = nullptr;
        int rows = 0;         ///< of a block; 0: the head is computed whole
        int whole_head = -1, whole_loss = -1;  ///< calls: one is for predictions only, the other for nothing
        std::set<int> calls = {};
        bool takes(const Stage &s, const Stage &target) const {
            return head && s == Stage(*head) && loss && target == Stage(*loss);
        }
    } blocks;

    /// What holds the elements of a buffer: itself, or the one that it is a part of.
    int base(int buffer) const { return buffers[buffer].part_of >= 0 ? buffers[buffer].part_of : buffer; }

    /// The buffer that a stage reads a value of the graph from.
    int seen(const StageSpec &s, int value) const {
        bool backward = s.again || s.late || s.part != Part::forward;
        return backward && value_again[value] >= 0 ? value_again[value] : value_buffer[value];
    }
};

/// What the command asked of the step, beyond the model's own parameters.
struct StepOptions {
    bool clip = false;        ///< clip gradients by their global norm
    bool accumulate = false;  ///< several micro-batches in a step
    std::string update = "separate";
    int workers = 1;          ///< whose gradients are added
    bool groups = true;       ///< layers share kernels
    int head_rows = -1;       ///< of a block of the head and its loss; 0: they are whole, -1: whole while that is small
    bool same_bits = false;   ///< a budget changes no order of additions
    std::string dialect = "halide";  ///< what computes products where no line says it and it can
    std::function<void(const StepProgram &)> traced = {};  ///< called when all shapes are known
    std::set<int> rebuilt = {};  ///< calls whose output is built again, beside those that the schedule names
};

/// Whether the norm of a gradient is taken without making the gradient.
inline bool ghost(const StageSpec &s) { return s.part == Part::norm && s.call >= 0; }

/// Traces the model, differentiates it and lays out buffers and stages, every stage its own kernel.
void build_step(StepProgram &p, Model &model, Optimizer &optimizer, const StepOptions &options,
                const Step &schedule);
/// By a stage's signature: which of the buffers that it is offered it reads.
using KnownReads = std::map<std::string, std::vector<bool>>;
/// Finds out which buffers each stage really reads, by building it alone, once for all stages that are alike.
void analyse(StepProgram &p, const Machine &m, int jobs, int time_limit, KnownReads &known);
inline void analyse(StepProgram &p, const Machine &m, int jobs, int time_limit) {
    KnownReads none;
    analyse(p, m, jobs, time_limit, none);
}
/// Applies the step schedule: joins stages into kernels, or refuses a line with the reason; orders them.
void partition(StepProgram &p, const StepOptions &options);

}  // namespace cryolite::compiler
