#pragma once
// The one error type of the compiler's half. A message names the layer, parameter or stage, what was
// found and expected, and the next step.

#include <fmt/format.h>

#include <stdexcept>

namespace cryolite {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What was asked for is wrong, not what was done: exit status 2.
struct UsageError : Error {
    using Error::Error;
};

template <typename... Args> [[noreturn]] void fail(fmt::format_string<Args...> text, Args &&...args) {
    throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace cryolite
