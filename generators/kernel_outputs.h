#pragma once
// What a kernel stores: values, gradients in the layout of their parameter, updates in place, norms and their scale.

#include "generators/kernel_values.h"

namespace cryolite::compiler {

struct KernelOutput {
    int buffer;
    std::vector<int> extents;
    std::function<Expr(const std::vector<Halide::Var> &)> element;  ///< at storage indices
    Func whole = {};  ///< where defined, the output itself
    bool in_place = false;
    int offset = 0;  ///< elements
};

/// In the order of the kernel's stages.
class KernelOutputs {
public:
    KernelOutputs(const StepProgram &p, const Kernel &k, KernelValues &values);
    std::vector<KernelOutput> list;

private:
    const StepProgram &p;
    const Kernel &k;
    KernelValues &values;
    KernelInputs &in;

    void store(const StageSpec &s);
    void value(const StageSpec &s);
    void gradient(const StageSpec &s);
    void update(const StageSpec &s);
    void norm(const StageSpec &s);
    void scale(const StageSpec &s);
    Expr gradient_in_update(const StageSpec &s, const std::vector<int> &extents, const std::vector<Halide::Var> &v);
    Expr norm_for_rule(const StageSpec &s, Norm::Of of);
    template <typename Element>
    std::vector<Expr> rule(const StageSpec &s, const Element &element, const Expr &g);
    /// Written by the norms' kernel: the clipping scale, then, where updates may be withheld, whether all is finite.
    Expr scale_word(int index) { return in.image(p.scale, p.buffers[p.scale].shape.extents(), "scale")(index); }
};

}  // namespace cryolite::compiler
