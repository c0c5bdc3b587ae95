#pragma once
// The standard streams of a process. Words for people, on stderr, are a courtesy: where nobody listens (a full disk, a
// closed terminal, a reader that went away) they are dropped, and the work goes on.

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace cryolite {

/// Opens /dev/null for each of the descriptors 0, 1 and 2 that was closed at the start, so that no file of a run gets
/// its number and then the text meant for it. Reading or writing the stream still fails, as before.
void hold_standard_streams();

struct StreamResult {
    int error = 0;       ///< 0, or the errno that stopped it
    size_t written = 0;  ///< bytes
};
/// Writes all of `text`, waiting where the other end is slow.
StreamResult write_stream(int descriptor, std::string_view text) noexcept;

/// Text for people on stderr.
inline void tell_text(std::string_view text) noexcept { write_stream(STDERR_FILENO, text); }

/// A line of text for people on stderr.
template <typename... Args> void tell(fmt::format_string<Args...> text, Args &&...args) {
    tell_text(fmt::format(text, std::forward<Args>(args)...) + "\n");
}

}  // namespace cryolite
