#pragma once
// The operations of a training step.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "generators/ir/value.h"

namespace cryolite::ir {

/// Elements of a parameter's storage that one worker has: it sums their gradients and updates them. worker -1: all of
/// them, in every worker.
struct Shard {
    int worker = -1;
    int64_t begin = 0, count = 0;
    bool operator==(const Shard &) const = default;
};

/// The output of a call.
struct Forward {
    enum When {
        in_forward,
        in_backward,  ///< of a block of rows of the head: just before the backward pass needs it
        remat,        ///< once more, for the backward pass
    };
    CallId call;
    When when = in_forward;
};

/// The adjoint of an input of a call, plus those that the value has from elsewhere.
struct InputGrad {
    CallId call;
    int input;
    ValueId dy;  ///< the adjoint of the call's output
    std::vector<ValueId> addends = {};
};

/// The gradient of a parameter by one call, stored or added to what its array holds.
struct ParamGrad {
    CallId call;
    ParamId w;
    ValueId dy;
    bool accumulate = false;
};

/// The sum of a value's adjoints, where no input-grad is left that could add them.
struct AddAdjoints {
    ValueId of;
    std::vector<ValueId> addends;
};

/// A call and the adjoint of its output: a factor of each gives a parameter's gradient.
struct Use {
    CallId call;
    ValueId dy;
    bool operator==(const Use &) const = default;
};
struct OfGradient {};
struct OfWeight {};
/// Without the gradient: a share of |X'dY|^2 = sum((X X') * (dY dY')), of two uses (or one, twice).
struct Gram {
    Use a, b;
};
/// Without the gradient: sum over rows of |x|^2 |dy|^2, which is finite where the norm is.
struct CauchySchwarzBound {
    Use of;
};
/// A part of the squared norm of a parameter or its gradient: an entry of the array of norms.
struct Norm {
    ParamId w;
    std::variant<OfGradient, OfWeight, Gram, CauchySchwarzBound> how;
    Shard shard = {};
    int slot = 0;

    bool of_weight() const { return std::holds_alternative<OfWeight>(how); }
    /// Whether it is taken without the gradient.
    bool ghost() const { return std::holds_alternative<Gram>(how) || std::holds_alternative<CauchySchwarzBound>(how); }
};

/// From all norms: the factor of clipping, divided by the loss's scale where there is one, and where updates may be
/// withheld, whether all is finite.
struct GradientScale {
    bool clip;
};

/// The next scale of the loss, and its counters, from whether all gradients of this step are finite.
struct NextLossScale {};

/// The optimizer's rule on a parameter and its state.
struct Update {
    ParamId w;
    bool scaled;  ///< gradients are multiplied by the factor of clipping and of the loss's scale
    Shard shard = {};
};

/// The sum over workers of a shard of a gradient. The runtime computes it, no kernel does.
struct Reduce {
    ParamId w;
    Shard shard;
};

/// What states of a layer, of one shape, become by a call in training. With several workers one does it, by its part of
/// the batch, for all.
struct NextState {
    CallId call;
    std::vector<ParamId> states;
    Shard shard = {};
};

using OpKind = std::variant<Forward, InputGrad, ParamGrad, AddAdjoints, Norm, GradientScale, Update, Reduce, NextState,
                            NextLossScale>;

struct Op {
    std::string name;  ///< "h.0.mlp.c_fc", "d(h.0.mlp.c_fc)", "d(h.0.mlp.c_fc.weight)", "next(...)"
    OpKind kind;
    std::vector<Ref> reads = {};   ///< until reads are inferred, all that it is offered
    std::vector<Ref> writes = {};  ///< one, but for updates: the parameter, then its states; and for states of a layer
    double flops = 0;
    KernelId kernel = {};             ///< the kernel that computes it, once there are kernels
    std::string placed = "root";      ///< "root", "at ...", "with ...", "rematerialised", "at forward"
    std::string why = {}, rule = {};  ///< of updates, what decided it, and the name of the rule
};

template <typename Kind> const Kind *as(const Op &op) { return std::get_if<Kind>(&op.kind); }
template <typename Kind> Kind *as(Op &op) { return std::get_if<Kind>(&op.kind); }
template <typename Kind> bool is(const Op &op) { return std::holds_alternative<Kind>(op.kind); }

/// "forward", "input-grad", ...
const char *kind_name(const Op &op);
/// The call that an operation belongs to, where it does to one.
std::optional<CallId> call_of(const Op &op);
/// The call whose gradient it takes, and of what adjoint.
std::optional<Use> use_of(const Op &op);
/// The parameter that it is about, where it is about one.
ParamId parameter_of(const Op &op);
std::span<const ValueId> addends_of(const Op &op);
Shard shard_of(const Op &op);
/// Whether it runs after the forward pass, and so sees what that pass did not keep materialised again.
bool in_backward(const Op &op);
/// Whether a value is a result of it.
bool writes(const Op &op, ValueId value);
/// Calls `change` on every value that it names.
void for_each_value(Op &op, const std::function<void(ValueId &)> &change);

}  // namespace cryolite::ir
