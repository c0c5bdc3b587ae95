#pragma once
// Gradients that add rows at data-dependent places (an embedding's): written straight into storage, so that
// no second array of the table's size is filled and added.

#include <Halide.h>

#include "schedules/layout.h"

namespace cryolite::compiler {

/// Whether `f` is zero plus one sum, over one variable, that adds at a computed index of one dimension. In a layout of
/// panels this must be the panels' dimension. A Func that adds at computed indices in another way is no scatter.
bool is_scatter(const Halide::Func &f, const Layout &layout);

/// The same sum with storage indices `v`. With `accumulate` it is added to what the output holds, otherwise to zero.
Halide::Func scatter_into_storage(const Halide::Func &f, const Layout &layout, std::vector<Halide::Var> v,
                                  bool accumulate);

/// The same sum with storage indices `v` in panels of the dimension that the data index, added to `start`. The Func is
/// called "in_panel"; each panel is computed by itself, from the rows that belong to it.
Halide::Func scatter_into_panels(const Halide::Func &f, const Layout &layout, std::vector<Halide::Var> v,
                                 const Halide::Expr &start);

}  // namespace cryolite::compiler
