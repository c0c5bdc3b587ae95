#pragma once
// The memory that this process may still take.

#include <optional>

#include "runtime/io/files.h"

namespace cryolite {

struct MemoryLeft {
    uint64_t bytes = 0;
    bool of_host = false;  ///< other processes of this host take from the same
    std::string words;     ///< whose limit it is
};

/// The least of what is free on this machine (MemAvailable), what limits of this process leave (RLIMIT_AS and _DATA),
/// and what each of its memory cgroups does (v2, v1), cached files being free. CRYOLITE_MEMORY=BYTES says it instead.
/// `root`: where /proc and /sys are. Errors: a CRYOLITE_MEMORY that is no number of bytes.
MemoryLeft memory_left(const fs::path &root = "/");

}  // namespace cryolite
