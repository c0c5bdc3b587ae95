#pragma once
// What one kernel reads: its arguments as Funcs, and the arrays that its stages see.

#include <deque>
#include <functional>
#include <optional>

#include "generators/half_products.h"
#include "generators/step.h"

namespace cryolite::compiler {

/// Variables of storage dimensions; the same names in every kernel, so that equal kernels have equal keys.
std::vector<Halide::Var> storage_vars(int n);
inline std::vector<Expr> as_exprs(const std::vector<Halide::Var> &v) { return {v.begin(), v.end()}; }

class KernelInputs {
public:
    struct Image {
        int buffer;
        Halide::ImageParam param;
        std::vector<int> extents;
        int offset = 0;  ///< elements
    };

    /// `define` builds a forward stage in this kernel, for values that are not stored.
    KernelInputs(const StepProgram &p, const Kernel &k, std::function<void(const StageSpec &)> define);

    /// A Func over the stored elements of a buffer, `extents` being how this kernel sees them.
    Func image(int buffer, const std::vector<int> &extents, const std::string &name);
    /// The same of `count` elements from `offset` on.
    Func slice(int buffer, int offset, int count, const std::string &name);
    /// What a layer reads: made in this kernel, stored before it, or built again here.
    Array array(int buffer, const std::string &name);
    /// Gives every parameter of the call's layer its Func in this kernel.
    void bind_parameters(const Graph::Call &c);
    /// In how many dimensions this kernel sees an activation.
    int rank(int buffer) const { return ranks_.at(buffer); }

    std::vector<Image> images;    ///< in the order they were first asked for
    std::map<int, Array> arrays;  ///< buffer -> logical array in this kernel
    Halves halves;                ///< of what is stored in bf16

    /// What others see of a result of this kernel: as it is stored.
    Array kept(int buffer, const Func &f, const Shape &shape);

private:
    const StepProgram &p;
    const Kernel &k;
    std::function<void(const StageSpec &)> define_;
    std::map<int, int> ranks_;
    std::map<std::pair<int, int>, Func> storage_;  ///< by buffer and offset
    std::map<int, Array> masters_;  ///< of weights kept in halves, put together
    std::deque<StageSpec> again_;

    bool writes_here(int buffer) const;
    Func part(int buffer, int offset, const std::vector<int> &extents, const std::string &name);
    Array widen(const Func &half, const Shape &shape, const std::string &name);
    Array weight(const Parameter &w, bool whole);
    std::optional<Array> rebuild(int buffer);
};

}  // namespace cryolite::compiler
