#pragma once
// What an array of a step is for: docs/plan.md says how long each lives.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace cryolite {

enum class Role {
    input,
    parameter,
    state,
    gradient,
    activation,
    scalars,
    norms,
    scale,
    master_low,
    count,
    share,
    master,
    loss_scaler,
    partial,
    joint
};

/// As the plan's file spells it: "master_low".
const char *role_name(Role role);
/// Throws an Error: there is no such role.
Role role_named(std::string_view name);

/// By its name.
void to_json(nlohmann::json &j, Role role);
void from_json(const nlohmann::json &j, Role &role);

}  // namespace cryolite
