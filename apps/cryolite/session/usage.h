#pragma once
// Errors in what a user gave.

#include <string_view>

#include "bundle/error.h"

namespace cryolite {

/// Does `work`, and returns what it returns. Its errors become usage errors, for the user named what is wrong; those
/// that are none yet begin with `about`, such as "--init: ".
template <typename Work> auto usage_errors(std::string_view about, const Work &work) {
    try {
        return work();
    } catch (const UsageError &) {
        throw;
    } catch (const Error &e) {
        fail_usage("{}{}", about, e.what());
    }
}

}  // namespace cryolite
