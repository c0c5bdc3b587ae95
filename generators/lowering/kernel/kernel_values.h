#pragma once
// The values of a kernel's operations as Funcs: forward values, gradients, norms from inner products, sums.

#include <map>
#include <utility>
#include <vector>

#include "generators/lowering/kernel/kernel_inputs.h"

namespace cryolite::compiler {

class KernelValues {
public:
    /// Names of Funcs and arguments depend on positions in the kernel alone, so that equal kernels have equal keys.
    KernelValues(const StepProgram &p, const ir::Kernel &k, HalfProducts how = HalfProducts::dot_products);

    KernelInputs in;
    std::vector<std::pair<const ir::Op *, Func>> defined;  ///< in order
    std::map<ParamId, Func> scattered;  ///< of a tied table: its embedding's gradient, beside that of the product
    std::map<const ir::Op *, Func> ghost_norms;

    /// This kernel's operation of that kind on a parameter, null without one.
    template <typename Kind> const Kind *find(ParamId w) const {
        for (OpId id : k.ops)
            if (auto *found = ir::as<Kind>(p.ops[id]); found && found->w == w) return found;
        return nullptr;
    }
    /// What a call read and made, as this kernel sees it, with its parameters bound.
    ::cryolite::Call seen(const ir::Op &op, CallId c);
    /// A scalar of the step, given at run time: that of all parameters, or of the group that a parameter belongs to.
    Expr scalar(int index, ParamId of = {});

private:
    const StepProgram &p;
    const ir::Kernel &k;
    const HalfProducts how;  ///< how factors of 16 bits are multiplied; by `tiles`, those of float32, too

    void define(const ir::Op &op);
    void forward(const ir::Op &op, CallId c);
    void gradient(const ir::Op &op, const ir::Use &use);
    void ghost_norm(const ir::Op &op, const ir::Norm &n);
    void sum(const ir::Op &op);
    std::vector<Array> inputs(const ir::Op &op, CallId c);
    /// Gives the layer what it reads beside its inputs.
    void bind(CallId c);
    /// Tells the layer which arrays of the kernel so far are of 16 bits.
    void bind_factors(CallId c);
    /// Multiplies in the way of this processor and of the layer's number format; `result` is the shape of `f`, which an
    /// operation on the call `c` computes.
    Func products(const ir::Op &op, CallId c, const Func &f, const Shape &result) const;
    void check_result(const ir::Op &op, const Func &f, int rank, const ir::DataType &type) const;
    Factors factors(const ir::Op &op, ParamId w, const ir::Use &use);
    Func rounded_factor(const Func &f) const;
    Array adjoint(ValueId dy, ValueId out);
    Func with_addends(const ir::Op &op, const Func &f);
    Shape seen_shape(ValueId value) { return p.values[value].shape.folded(in.rank(value)); }
};

/// Whether each element of `f` is written by its updates alone.
bool starts_undefined(const Func &f);

}  // namespace cryolite::compiler
