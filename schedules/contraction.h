#pragma once
// Whether a kernel is a sum of products, by its Funcs.

#include "schedules/group.h"

namespace cryolite {

/// Where a Func reads another one, in its updates and else.
std::vector<const Halide::Internal::Call *> reads_of(const Halide::Func &reader, const Halide::Func &f);

/// Whether all that a kernel adds up is in its anchor: f(i, j, ...) += a(..) * b(..), factors read at variables alone,
/// over loops that the place has no part in. It stores its result whole, and not in place.
bool is_contraction(const Group &g);

/// Whether all that it adds up are the rows of an array: f(i) += a(i, ..).
bool adds_rows(const Group &g);

/// Whether the anchor's elements are stored at other places than their own, as those of a gradient that is turned.
bool shown_elsewhere(const Group &g);

}  // namespace cryolite
