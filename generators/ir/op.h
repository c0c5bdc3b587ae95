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

/// The elements of a parameter's storage that one worker owns: it sums their gradients and updates them. worker -1:
/// every worker has all elements.
struct Shard {
    int worker = -1;
    int64_t begin = 0, count = 0;
    bool operator==(const Shard &) const = default;
};

/// The output of a call.
struct Forward {
    enum When {
        in_forward,
        in_backward,  ///< of a chunk of the head's rows: just before the backward pass needs it
        remat,        ///< once more, for the backward pass
    };
    CallId call;
    When when = in_forward;
};

/// The adjoint of an input of a call, plus the adjoints that the value has from its other readers.
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

/// The sum of a value's adjoints, where there is no InputGrad that could add them.
struct AddAdjoints {
    ValueId of;
    std::vector<ValueId> addends;
};

/// A call and the adjoint of its output. The gradient of a parameter of the call is a product of a factor of each.
struct Use {
    CallId call;
    ValueId dy;
    bool operator==(const Use &) const = default;
};
struct OfGradient {};
struct OfWeight {};
/// Computed without the gradient: the term of two uses, or of one use twice, in |X'dY|^2 = sum((X X') * (dY dY')).
struct Gram {
    Use a, b;
};
/// Computed without the gradient: the sum over rows of |x|^2 |dy|^2, which is finite where the norm is.
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
    /// Whether it is computed without the gradient.
    bool ghost() const { return std::holds_alternative<Gram>(how) || std::holds_alternative<CauchySchwarzBound>(how); }
};

/// Computed from all norms: the factor of clipping, divided by the loss's scale where there is one. Where updates may
/// be withheld, also whether all norms are finite.
struct GradientScale {
    bool clip;
};

/// The next scale of the loss and its counters. They depend on whether all gradients of this step are finite.
struct NextLossScale {};

/// The optimizer's rule on a parameter and its state.
struct Update {
    ParamId w;
    bool scaled;  ///< gradients are multiplied by the factor that GradientScale computes
    Shard shard = {};
};

/// The sum over workers of a shard of a gradient. The runtime computes it, no kernel does.
struct Reduce {
    ParamId w;
    Shard shard;
};

/// The next values of a layer's states, all of one shape, after a call in training. Of several workers one computes
/// them for all, from its part of the batch.
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
    std::vector<Ref> reads = {};   ///< until the pass infer-reads, all that it may read
    std::vector<Ref> writes = {};  ///< one; of an update, the parameter, then its states; of NextState, all its states
    double flops = 0;
    KernelId kernel = {};             ///< the kernel that computes it, once there are kernels
    std::string placed = "root";      ///< "root", "at ...", "with ...", "rematerialised", "at forward"
    std::string why = {}, rule = {};  ///< what decided the place of an update, and the name of the rule
};

template <typename Kind> const Kind *as(const Op &op) { return std::get_if<Kind>(&op.kind); }
template <typename Kind> Kind *as(Op &op) { return std::get_if<Kind>(&op.kind); }
template <typename Kind> bool is(const Op &op) { return std::holds_alternative<Kind>(op.kind); }

/// "forward", "input-grad", ...
const char *kind_name(const Op &op);
/// The call that an operation belongs to, if any.
std::optional<CallId> call_of(const Op &op);
/// The call whose gradient an operation computes, with the adjoint of the call's output, if any.
std::optional<Use> use_of(const Op &op);
/// The parameter whose gradient, norm, update, sum or next state an operation computes, if any.
ParamId parameter_of(const Op &op);
std::span<const ValueId> addends_of(const Op &op);
Shard shard_of(const Op &op);
/// Whether an operation runs after the forward pass. Then it reads the rematerialised copies of values that the forward
/// pass did not keep.
bool in_backward(const Op &op);
/// Whether an operation writes a value.
bool writes(const Op &op, ValueId value);
/// Calls `change` on every value that an operation names.
void for_each_value(Op &op, const std::function<void(ValueId &)> &change);

}  // namespace cryolite::ir
