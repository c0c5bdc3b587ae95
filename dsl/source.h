#pragma once

#include <source_location>
#include <string>

namespace cryolite {

/// Where something is written, for people: "my_model.cpp:12".
std::string place_of(const std::source_location &where);

}  // namespace cryolite
