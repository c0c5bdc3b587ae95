#pragma once
// The one error type of the runtime's half. A message names the file, tensor, flag, line or offset,
// what was found and expected, and the next step. `Error` and `fail` are spelt exactly as in
// dsl/error.h, because a test may link both halves.

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace cryolite {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename... Args> [[noreturn]] void fail(fmt::format_string<Args...> text, Args &&...args) {
    throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// What the user typed is wrong (a flag, a value, a file that was named): the command exits with
/// status 2.
struct UsageError : Error {
    using Error::Error;
};

template <typename... Args> [[noreturn]] void fail_usage(fmt::format_string<Args...> text, Args &&...args) {
    throw UsageError(fmt::format(text, std::forward<Args>(args)...));
}

/// Text from a file or a user, safe to show: in double quotes, control characters and bytes that
/// are not ASCII as \xNN, cut after `limit` bytes.
std::string shown(std::string_view text, size_t limit = 80);

/// 1234567 -> "1.2 MB": a size for people (powers of 1000).
std::string human_bytes(unsigned long long bytes);

}  // namespace cryolite
