#pragma once
// The memory that this process may still take.

#include <optional>

#include "runtime/io/files.h"

namespace cryolite {

struct MemoryLeft {
    uint64_t bytes = 0;
    bool of_host = false;  ///< other processes of this host share it
    std::string words;     ///< whose limit it is
};

/// The smallest of the memory that is free on this machine (MemAvailable), what this process's limits leave (RLIMIT_AS,
/// RLIMIT_DATA), and what each of its memory cgroups leaves (v2, v1), where cached files count as free.
/// CRYOLITE_MEMORY=BYTES replaces it. `root`: where /proc and /sys are. Errors: CRYOLITE_MEMORY is no number of bytes.
MemoryLeft memory_left(const fs::path &root = "/");

}  // namespace cryolite
