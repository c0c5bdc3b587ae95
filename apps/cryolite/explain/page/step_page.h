#pragma once
// A step as a page: what `explain --html` writes.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace cryolite {

/// `step`: the object of `explain --json`, with "title" and "summary" in words, and `inner_loops` where they are known.
/// One HTML file, well-formed as XML, which loads nothing, light or dark as the browser is.
std::string step_page(const nlohmann::json &step);

}  // namespace cryolite
