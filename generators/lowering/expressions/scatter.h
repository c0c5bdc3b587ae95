#pragma once
// Gradients that add rows at data-dependent places (an embedding's): written straight into storage, so that
// no second array of the table's size is filled and added.

#include <Halide.h>

#include "schedules/layout.h"

namespace cryolite::compiler {

/// Whether `f` is one sum, over one variable, that adds at a computed place of one dimension: that of the layout's
/// panels. What adds at places in another way is a Func like any other.
bool is_scatter(const Halide::Func &f, const Layout &layout);

/// The same sum over storage indices `v`; `accumulate`: onto what the output holds, else onto zero.
Halide::Func scatter_into_storage(const Halide::Func &f, const Layout &layout, std::vector<Halide::Var> v,
                                  bool accumulate);

/// The same sum over storage `v` in panels of the dimension that the data index, onto `start`: "in_panel", each panel
/// by itself from the rows that belong to it.
Halide::Func scatter_into_panels(const Halide::Func &f, const Layout &layout, std::vector<Halide::Var> v,
                                 const Halide::Expr &start);

}  // namespace cryolite::compiler
