#pragma once
// Gradients that add rows at data-dependent places (an embedding's): written straight into storage, so that
// no second array of the table's size is filled and added.

#include <Halide.h>

#include "schedules/layout.h"

namespace cryolite {

/// Whether the update of `f` stores at indices that depend on data.
bool is_scatter(const Halide::Func &f);

/// The same sum over storage indices `v`; `accumulate`: onto what the output holds, else onto zero.
Halide::Func scatter_into_storage(const Halide::Func &f, const Layout &layout,
                                  std::vector<Halide::Var> v, bool accumulate);

}  // namespace cryolite
