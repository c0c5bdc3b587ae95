#pragma once

#include <span>

#include "bundle/plan.h"

namespace cryolite {

/// Converts row-major elements to storage order (padding is zero) and back. The buffer gives both sizes.
void to_storage(const PlanBuffer &b, std::span<const float> row_major, std::span<float> storage);
void to_row_major(const PlanBuffer &b, std::span<const float> storage, std::span<float> row_major);

}  // namespace cryolite
