#pragma once

namespace cryolite {

/// How much of its input one element of a layer's output needs: decides what may share a kernel.
enum class Nature {
    pointwise,  ///< the element at the same place
    rowwise,    ///< the innermost row
    anchor,     ///< more: it owns the loop nest of its kernel
    sum,        ///< pointwise, and every input's gradient is that of the output
};

}  // namespace cryolite
