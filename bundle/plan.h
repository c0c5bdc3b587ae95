#pragma once
// The plan of a bundle: its buffers, its kernels, and the kernel calls of each pass. docs/plan.md describes the file.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bundle/entries.h"
#include "bundle/role.h"
#include "dialects/product.h"

namespace cryolite {

/// How the elements of a parameter are stored: row-major, or dimension `dim` (innermost is 0) in panels.
struct PanelLayout {
    int panel = 0, dim = 0;
    bool operator==(const PanelLayout &) const = default;
};

/// The initial values of a parameter.
struct PlanInit {
    std::string rule = {};  ///< "constant" or "normal"
    double value = 0;       ///< the constant, or the standard deviation
    bool operator==(const PlanInit &) const = default;
};

struct PlanBuffer {
    std::string name;
    Role role = Role::input;
    std::string type;
    std::vector<int> shape;  ///< innermost extent first
    int64_t bytes = 0;       ///< in storage, padding included
    int64_t offset = -1;     ///< of an activation, or of a gradient that only its step reads: place in the arena
    int parameter = -1;      ///< the parameter that a gradient, state, master_low, master, share or partial belongs to
    int worker = -1;         ///< whose gradient a share is
    int level = -1;          ///< of a partial: it is the sum over 2^level parts of the batch
    int part_of = -1;        ///< the joint buffer that holds its elements; -1: it has memory of its own
    int64_t begin = 0;       ///< of a part: elements of the joint buffer before it
    bool stored = true;
    PanelLayout layout = {};
    std::string frozen = {};           ///< of a parameter: what says that it is not trained; empty: it is
    bool of_layer = false;             ///< of a parameter: no rule trains it, its layer updates it in training
    PlanInit init = {};                ///< of a parameter
    std::vector<float> constant = {};  ///< of an input that is always the same
    std::string format_why = {};       ///< what decided its type, where a step is not fp32

    int64_t elements() const;
    int element_bytes() const;
    /// Whether it lives in the arena: an activation, or a gradient that has a place there.
    bool in_arena() const { return role == Role::activation || (role == Role::gradient && offset >= 0); }
    int64_t stored_elements() const { return bytes / element_bytes(); }  ///< padding included
};

struct PlanArgument {
    std::string type;
    std::vector<int> extents;
    bool written = false;
};

struct PlanKernel {
    std::string symbol = {}, loops = {};  ///< symbol empty: a dialect computes it
    std::string layer = {},
                form = {};  ///< type of the layer that owns the loops; forward, d_input, d_parameter, update, norm
    std::vector<PlanArgument> args = {};
    struct Dialect {
        std::string name;
        Product product;
    };
    std::vector<Dialect> dialects = {};                     ///< what can compute it instead of compiled code
    const Dialect *dialect(const std::string &name) const;  ///< null: it is none of them
    int chosen = -1;                                        ///< index in `dialects`; -1: the compiled code
};

struct PlanCall {
    int kernel = 0;   ///< -1: a sum over workers
    int worker = -1;  ///< the only one that runs it, for all; -1: each runs it for itself
    int64_t sum = 0;  ///< elements of its argument that are added over workers
    std::string name = {}, pass = {};
    struct Stage {
        std::string name, placed, why;
    };
    std::vector<Stage> stages = {};
    struct Bound {
        int buffer;
        int64_t offset;  ///< elements
    };
    std::vector<Bound> args = {};
    int workspace = -1;  ///< a buffer of the arena for a dialect's temporary values; -1: none
    double flops = 0;
    double extra_flops =
        0;  ///< of them, those that the plan adds to the algorithm: values rematerialised, norms of factors
    int64_t bytes = 0;
    std::string why = {};  ///< of a product: why the kernel's dialect computes it
};

/// Which targets a loss takes for ids of classes, and how rows are weighted by them.
struct PlanIds {
    std::string loss;
    int input = -1;                 ///< the buffer that holds them
    int classes = 0;                ///< they are 0 ... classes - 1; 0: any numbers
    std::optional<double> ignored;  ///< or this one, whose rows have the weight 0
    int class_weights = -1;         ///< the buffer of the weights of rows, by class; -1: each is 1
    int mean_weight = -1;  ///< the input for the mean weight of the rows of a whole batch; -1: each weight is 1
};

/// Parameters that have another learning rate or weight decay than the rest: they have a copy of the scalars.
struct PlanGroup {
    int at = 0;  ///< where the copy begins among the elements of the buffer of scalars
    struct Setting {
        std::string scalar;
        double value;  ///< its own value, or (`times`) the factor of the common one
        bool times;
    };
    std::vector<Setting> settings;
    std::vector<std::string> texts;  ///< what was asked for: "wte=lr:0.1x"
    std::vector<int> parameters;     ///< buffers
};

/// What computes a kernel, and why.
struct DialectChoice {
    std::string dialect, why;
};

struct Plan {
    std::string device = "cpu";  ///< what its kernels were compiled for
    int capability = 0;          ///< for cuda: the least compute capability of a GPU, 80 for 8.0
    std::string task;            ///< "tokens" or "features"
    int workers = 1;             ///< data-parallel replicas
    int parts = 0;               ///< parts of a batch, whose gradients are added in a tree; 0: one for each worker
    int64_t arena = 0, arena_unshared = 0;
    bool loops_cleared = false;  ///< the schedule replaced all written loops by automatic ones: s.clear_loops()
    int loss = -1, output = -1;
    struct Term {
        std::string loss;
        int buffer;
    };
    std::vector<Term> terms;  ///< the losses that make up the loss, where there are several; then metrics
    /// The loss of the rows that have a weight, in the plan "evaluate"; -1: there is none, for the reason `hindrance`.
    /// `terms`: the same for each of the plan's terms.
    struct Evaluation {
        int loss = -1, row_weights = -1;
        std::string hindrance = {};
        std::vector<int> terms = {};
    } evaluation;
    /// What a step saves because parameters are frozen: bytes that would be kept, FLOPs of a micro-batch.
    struct Spared {
        int64_t state_bytes = 0, gradient_bytes = 0;
        double flops = 0;
        bool operator==(const Spared &) const = default;
    } spared;
    std::vector<PlanIds> ids;
    std::vector<std::string> scalar_names;
    std::vector<double> scalar_values;
    std::vector<PlanGroup> groups;
    std::vector<PlanBuffer> buffers;
    std::vector<PlanKernel> kernels;
    std::map<std::string, std::vector<PlanCall>> plans;

    static constexpr int format = 5;      ///< of the file
    static constexpr int mode_words = 5;  ///< of the input "mode": training, the seed in two, the step, parts before it
    /// Index of the first buffer of this role, and of this name where one is given; -1: none.
    int find(Role role, const std::string &name = "") const;
    int scalar(const std::string &name) const;  ///< -1: none
    /// The buffer of a parameter's master: the low half of a split master, or the whole fp32; -1: the parameter has
    /// none.
    int master_of(int parameter) const;
    int gradient_of(int parameter) const;  ///< the buffer; -1: none
    /// How many parts a batch is cut into (inputs hold one), and how many of them a worker has, one after the other.
    int batch_parts() const { return parts ? parts : workers; }
    int parts_of_worker() const { return batch_parts() / workers; }
    /// The plan that follows the forward pass of micro-batch k of `accumulate`.
    const char *backward(int k, int accumulate) const {
        return k == accumulate - 1 && !parts ? entry::step : k == 0 ? entry::first : entry::accumulate;
    }
    /// Stored bytes by role, with `replicas` workers in one process; activations: the bytes of their arenas.
    std::map<std::string, int64_t> memory(int replicas) const;
    std::map<std::string, int64_t> memory() const { return memory(workers); }
    /// How many elements of an argument a call touches.
    int64_t elements(const PlanCall &call, size_t argument) const;
    int64_t parameters() const;          ///< logical elements of all parameters
    int64_t trained_parameters() const;  ///< of those that are not frozen
    /// Makes dialects compute kernels, by symbol, where they can.
    void choose(const std::map<std::string, DialectChoice> &dialects);
    /// The name of a call's loop schedule, or of the dialect that computes it.
    const std::string &loops(const PlanCall &c) const;
    /// Whether loops of a kernel multiply by the processor's tiles.
    bool multiplies_by_tiles() const;
    bool writes(const PlanCall &c, size_t argument) const;
};

}  // namespace cryolite
