#pragma once
// What one kernel reads: its arguments as Funcs, and the arrays that its stages see.

#include <deque>
#include <functional>
#include <optional>

#include "generators/lowering/expressions/half_products.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Variables of storage dimensions; the same names in every kernel, so that equal kernels have equal keys.
std::vector<Halide::Var> storage_vars(int n);
inline std::vector<Expr> as_exprs(const std::vector<Halide::Var> &v) { return {v.begin(), v.end()}; }

class KernelInputs {
public:
    struct Image {
        ValueId value;
        Halide::ImageParam param;
        std::vector<int> extents;
        int offset = 0;  ///< elements
    };

    /// `define` builds a forward operation in this kernel, for values that are not stored.
    KernelInputs(const StepProgram &p, const ir::Kernel &k, std::function<void(const ir::Op &)> define);

    /// A Func over the stored elements of a value. This kernel sees them with these extents.
    Func image(ValueId value, const std::vector<int> &extents, const std::string &name);
    /// The same for `count` elements from `offset` on.
    Func slice(ValueId value, int offset, int count, const std::string &name);
    /// What a layer reads: made in this kernel, stored before it, or rematerialised here.
    Array array(ValueId value, const std::string &name);
    /// Gives every parameter of the call's layer its Func in this kernel.
    void bind_parameters(CallId c);
    /// In how many dimensions this kernel sees an activation.
    int rank(ValueId value) const { return ranks_.at(value); }

    std::vector<Image> images;        ///< in the order they were first asked for
    std::map<ValueId, Array> arrays;  ///< as this kernel sees them
    HalfFuncs halves;                 ///< of the values that are stored in 16 bits

    /// A result of this kernel as its other operations see it: rounded to the type in which it is stored.
    Array kept(ValueId value, const Func &f, const Shape &shape);

private:
    const StepProgram &p;
    const ir::Kernel &k;
    std::function<void(const ir::Op &)> define_;
    std::map<ValueId, int> ranks_;
    std::map<std::pair<ValueId, int>, Func> storage_;  ///< by value and offset
    std::map<ValueId, Array> masters_;                 ///< of narrow weights: their fp32 values
    std::deque<ir::Op> again_;

    bool writes_here(ValueId value) const;
    Func part(ValueId value, int offset, const std::vector<int> &extents, const std::string &name);
    Array widen(const Func &half, const Shape &shape, const std::string &name);
    Array weight(ParamId w, bool whole);
    std::optional<Array> compute_again(ValueId value);
};

}  // namespace cryolite::compiler
