#pragma once
// Gradients that a layer does not write.

#include <vector>

#include "dsl/layer.h"
#include "dsl/partials.h"

namespace cryolite {

/// Where the reverse mode ends: an input or a parameter of the layer.
struct Source {
    Array array;
    bool wanted;  ///< whether its gradient is asked for
    Func gradient = Func();
};

/// Computes the gradients of the `wanted` sources by reverse mode over the Funcs from which `y` is computed; `dy` is
/// the adjoint of `y`. The bounds of all Funcs must follow from the extents of `dy` and of the sources.
///
/// There are rules for sums (f(x) += e), definitions in parts (f(r) = e), Tuples, scans (f(t) from f(t - 1)), and
/// changes in place by a value that no gradient flows to (f(x) = f(x) / n). Errors: Underivable, which names the Func
/// and the expression, for anything else.
void derive_gradients(const Func &y, const Array &dy, std::vector<Source> &sources);

}  // namespace cryolite
