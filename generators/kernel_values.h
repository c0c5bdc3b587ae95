#pragma once
// The values of a kernel's stages as Funcs: forward values, gradients, norms from inner products, sums.

#include <map>
#include <utility>
#include <vector>

#include "generators/kernel_inputs.h"

namespace cryolite::compiler {

class KernelValues {
public:
    /// Names of Funcs and arguments depend on places in the kernel alone, so that equal kernels have equal keys.
    KernelValues(const StepProgram &p, const Kernel &k);

    KernelInputs in;
    std::vector<std::pair<const StageSpec *, Func>> defined;  ///< in order
    std::map<const Parameter *, Func> scattered;  ///< beside the product of a tied table, its embedding's gradient
    std::map<const StageSpec *, Func> ghost_norms;

    /// This kernel's stage of that part of a parameter, null without one.
    const StageSpec *stage(Part part, const Parameter *w) const;
    /// The scalars of a step, given at run time.
    Expr scalar(int index);

private:
    const StepProgram &p;
    const Kernel &k;

    void define(const StageSpec &s);
    void forward(const StageSpec &s);
    void gradient(const StageSpec &s);
    void ghost_norm(const StageSpec &s);
    void sum(const StageSpec &s);
    const Graph::Call &call(const StageSpec &s) const { return p.graph.calls()[s.call]; }
    std::vector<Array> inputs(const StageSpec &s);
    Func half_products(const Graph::Call &c, const Func &f) const;
    void check_arity(const StageSpec &s, const Func &f, int rank) const;
    Factors factors(const StageSpec &s, int index, int dy);
    Func rounded_factor(const Func &f) const;
    Array adjoint(const StageSpec &s, int out);
    Func with_addends(const StageSpec &s, const Func &f);
    Shape seen_shape(int buffer) { return p.buffers[buffer].shape.folded(in.rank(buffer)); }
};

/// Whether each element of `f` is written by its updates alone.
bool starts_undefined(const Func &f);

}  // namespace cryolite::compiler
