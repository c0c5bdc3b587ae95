#pragma once

#include <source_location>
#include <string>

namespace cryolite {

/// A place in a source file as messages show it: "my_model.cpp:12".
std::string place_of(const std::source_location &where);

}  // namespace cryolite
