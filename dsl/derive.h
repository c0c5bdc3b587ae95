#pragma once
// Gradients that a layer does not write.

#include <vector>

#include "dsl/layer.h"
#include "dsl/partials.h"

namespace cryolite {

/// Where the algorithm ends: an input or a parameter.
struct Source {
    Array array;
    bool wanted;  ///< whether its gradient is asked for
    Func gradient = Func();
};

/// Reverse mode over the Funcs behind `y`, whose adjoint is `dy`: the gradients of the sources that want one. Bounds
/// of all Funcs must follow from the extents of `dy` and of the sources.
///
/// Sums (f(x) += e), definitions in parts (f(r) = e), Tuples, scans (f(t) from f(t - 1)), and changes in place by what
/// no gradient flows to (f(x) = f(x) / n) have rules; throws Underivable, with Func and expression, for the rest.
void derive_gradients(const Func &y, const Array &dy, std::vector<Source> &sources);

}  // namespace cryolite
