#pragma once

#include <span>

#include "bundle/plan.h"

namespace cryolite {

/// From row-major elements to storage (padding is zero) and back. Sizes are those of the buffer.
void to_storage(const PlanBuffer &b, std::span<const float> row_major, std::span<float> storage);
void to_row_major(const PlanBuffer &b, std::span<const float> storage, std::span<float> row_major);

}  // namespace cryolite
