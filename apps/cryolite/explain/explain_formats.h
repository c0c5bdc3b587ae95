#pragma once
// In which number format each value of a step is stored, and why.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "bundle/plan.h"

namespace cryolite {

/// Of values between kernels and of parameters: [{"name", "role", "type", "why"}, ...]; empty where all is fp32.
nlohmann::json formats_json(const Plan &plan);
/// The same for people: equal values of equal blocks are one line. Empty where all is fp32.
std::string formats_text(const Plan &plan);

}  // namespace cryolite
