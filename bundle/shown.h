#pragma once
// Text and sizes as messages show them.

#include <cstddef>
#include <string>
#include <string_view>

namespace cryolite {

/// Text from a file or a user, safe to show: in double quotes, control characters and bytes that
/// are not ASCII as \xNN, cut after `limit` bytes.
std::string shown(std::string_view text, size_t limit = 80);

/// Text of several lines in one, without spaces at its end, cut after `limit` bytes. A single line stays as it is.
std::string one_line(std::string text, size_t limit = std::string::npos);

/// 1234567 -> "1.2 MB": a size for people (powers of 1000).
std::string human_bytes(unsigned long long bytes);

}  // namespace cryolite
