#pragma once
// An update rule: an expression for the new value of a parameter from its old value, its gradient and
// the state kept beside it. It works on single elements, so that the schedule may place it anywhere.

#include <Halide.h>

#include <string>
#include <vector>

#include "bundle/error.h"
#include "bundle/range.h"

namespace cryolite {

using Halide::Expr;
// So that a rule can be written on Scalars and States, which become Exprs.
using Halide::operator+, Halide::operator-, Halide::operator*, Halide::operator/, Halide::operator<, Halide::operator>;
using Halide::abs, Halide::exp, Halide::log, Halide::max, Halide::min, Halide::pow, Halide::select, Halide::sqrt;
class Optimizer;

/// A number given at run time, the same for all parameters of a step: a flag of the command, whose value must be in
/// `range`.
class Scalar {
public:
    /// One whose name is known (lr, beta1, beta2, eps, weight-decay) has its range and help from optimizer.cpp;
    /// another one may be any finite number.
    Scalar(Optimizer *owner, std::string name, double value);
    Scalar(Optimizer *owner, std::string name, double value, RealRange range, std::string help);
    Scalar(const Scalar &) = delete;
    /// Its value as a float32 expression of the kernel that is being built.
    operator Expr() const { return Halide::cast<float>(exact); }

    const std::string name;
    const double value;  ///< the default of the flag
    const RealRange range;
    const std::string help;  ///< of the flag
    Expr exact;              ///< float64, bound while a kernel is built
};

/// A value kept beside every element of every parameter, zero at first.
class State {
public:
    State(Optimizer *owner, std::string name);
    State(const State &) = delete;
    operator Expr() const { return now; }
    State &operator=(const Expr &next) { return now = next, *this; }

    const std::string name;
    Expr now;  ///< bound to the old value before the rule runs, the new one after
};

/// The Euclidean norm of a whole parameter, or of its gradient after clipping, for rules with a trust ratio. The
/// compiler places such a rule where the whole parameter, or the whole gradient, exists already.
class Norm {
public:
    enum Of { weight, gradient };
    Norm(Optimizer *owner, Of of);
    Norm(const Norm &) = delete;
    operator Expr() const { return now; }

    const Of of;
    Expr now;  ///< float32, bound while a kernel is built
};

class Optimizer {
public:
    Optimizer() = default;
    Optimizer(const Optimizer &) = delete;
    virtual ~Optimizer() = default;

    /// The new value of `w` for gradient `g`; assigns the new values of its states.
    virtual Expr operator()(Expr w, Expr g) = 0;
    virtual std::string name() const = 0;

    const std::vector<Scalar *> &scalars() const { return scalars_; }
    const std::vector<State *> &states() const { return states_; }
    const std::vector<Norm *> &norms() const { return norms_; }
    bool takes(Norm::Of of) const {
        for (const Norm *n : norms_)
            if (n->of == of) return true;
        return false;
    }

    // Bound by the kernel builder before it applies the rule.
    bool decays = true;  ///< false for parameters of fewer than two dimensions: biases, gains
    Expr step;           ///< float64: 1 in the first update
    /// A float64 expression of scalars, computed once per kernel and used as float32 after that.
    Expr once(Expr e);

private:
    friend class Scalar;
    friend class State;
    friend class Norm;
    std::vector<Scalar *> scalars_;
    std::vector<Norm *> norms_;
    std::vector<State *> states_;
};

inline Scalar::Scalar(Optimizer *owner, std::string name, double value, RealRange range, std::string help)
    : name(std::move(name)), value(value), range(range), help(std::move(help)) {
    owner->scalars_.push_back(this);
}
inline State::State(Optimizer *owner, std::string name) : name(std::move(name)) { owner->states_.push_back(this); }
inline Norm::Norm(Optimizer *owner, Of of) : of(of) { owner->norms_.push_back(this); }
inline Expr Optimizer::once(Expr e) {
    Halide::Func shared("shared");
    shared() = Halide::cast<float>(std::move(e));
    return shared();
}

}  // namespace cryolite
