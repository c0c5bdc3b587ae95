#pragma once
// What the fuzzers of readers share. Each is a program of its own: with clang's libFuzzer it makes up inputs (the
// preset "fuzz"), without it main.cpp gives it those of its corpus.

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/io/error.h"
#include "runtime/io/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace cryolite::fuzz {

inline std::string_view text_of(const uint8_t *data, size_t size) {
    return {reinterpret_cast<const char *>(data), size};
}

/// The input as a file in memory, for readers that take a path.
class InputFile {
public:
    explicit InputFile(std::string_view bytes) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
        if (descriptor_ < 0 || ::write(descriptor_, bytes.data(), bytes.size()) != ssize_t(bytes.size())) ::abort();
    }
    ~InputFile() { ::close(descriptor_); }
    InputFile(const InputFile &) = delete;
    fs::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

/// A reader may refuse its input by an Error whose words are safe to show; whatever else it throws ends the process.
template <typename Read> void may_refuse(const Read &read) {
    try {
        read();
    } catch (const Error &e) {
        if (std::string_view(e.what()).empty()) ::abort();
    }
}

/// What a reader has promised of what it returned.
inline void require(bool promise) {
    if (!promise) ::abort();
}

}  // namespace cryolite::fuzz
