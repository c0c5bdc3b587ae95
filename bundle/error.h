#pragma once
// The one error type of both halves. A message names the layer, file, tensor, flag or line, what was found and
// expected, and the next step.

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace cryolite {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename... Args> [[noreturn]] void fail(fmt::format_string<Args...> text, Args &&...args) {
    throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// What the user typed is wrong (a flag, a value, a file that was named), not what was done: exit status 2.
struct UsageError : Error {
    using Error::Error;
};

template <typename... Args> [[noreturn]] void fail_usage(fmt::format_string<Args...> text, Args &&...args) {
    throw UsageError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace cryolite
