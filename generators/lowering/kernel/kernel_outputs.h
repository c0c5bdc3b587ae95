#pragma once
// What a kernel stores: values, gradients in the layout of their parameter, updates in place, norms and their scale.

#include "generators/lowering/kernel/kernel_values.h"

namespace cryolite::compiler {

struct KernelOutput {
    ValueId value;
    std::vector<int> extents;
    std::function<Expr(const std::vector<Halide::Var> &)> element;  ///< at storage indices
    Func whole = {};                                                ///< where defined, the output, without `element`
    bool in_place = false;
    int offset = 0;  ///< elements
};

/// The outputs of a kernel, in the order of its operations.
class KernelOutputs {
public:
    KernelOutputs(const StepProgram &p, const ir::Kernel &k, KernelValues &values);
    std::vector<KernelOutput> list;

private:
    const StepProgram &p;
    const ir::Kernel &k;
    KernelValues &values;
    KernelInputs &in;

    void store(const ir::Op &op);
    void value(const ir::Op &op);
    void gradient(const ir::Op &op, const ir::ParamGrad &g);
    void update(const ir::Op &op, const ir::Update &u);
    void norm(const ir::Op &op, const ir::Norm &n);
    void next_state(const ir::Op &op, const ir::NextState &n);
    void scale(const ir::GradientScale &s);
    void next_loss_scale(const ir::Op &op);
    /// The value that this kernel has as an argument for `v`: the joint array, where it updates several parameters.
    ValueId array(ValueId v) const { return p.joins_updates(k) ? p.base(v) : v; }
    Expr whole_gradient(const ir::Update &u, const std::vector<int> &extents, const std::vector<Halide::Var> &v);
    Expr gradient_in_update(ParamId w, const std::vector<int> &extents, const std::vector<Halide::Var> &v);
    Expr norm_for_rule(const ir::Update &u, Norm::Of of);
    template <typename Element> std::vector<Expr> rule(const ir::Update &u, const Element &element, const Expr &g);
    /// An element of the result of GradientScale. 0: the factor of gradients; 1: whether all of them are finite, where
    /// updates may be withheld.
    Expr scale_word(int index) { return in.image(p.scale, p.values[p.scale].shape.extents(), "scale")(index); }
};

}  // namespace cryolite::compiler
