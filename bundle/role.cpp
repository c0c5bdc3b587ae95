#include "bundle/role.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bundle/error.h"
#include "bundle/shown.h"

namespace cryolite {

namespace {

constexpr const char *role_names[] = {"input",   "parameter", "state",       "gradient",   "activation",
                                      "scalars", "norms",     "scale",       "master_low", "count",
                                      "share",   "master",    "loss_scaler", "partial",    "joint"};
static_assert(std::size(role_names) == size_t(Role::joint) + 1);

}  // namespace

const char *role_name(Role role) { return role_names[int(role)]; }

Role role_named(std::string_view name) {
    const auto at = std::ranges::find(role_names, name, [](const char *known) { return std::string_view(known); });
    if (at == std::end(role_names)) fail("{} is no role of an array", shown(name));
    return Role(at - std::begin(role_names));
}

void to_json(nlohmann::json &j, Role role) { j = role_name(role); }
void from_json(const nlohmann::json &j, Role &role) { role = role_named(j.get<std::string>()); }

}  // namespace cryolite
