#pragma once
// The memory that a run takes in this process, by holder.

#include <cstdint>
#include <map>
#include <string>

#include "bundle/plan.h"

namespace cryolite {

struct MemoryNeed {
    std::map<std::string, int64_t> roles;  ///< bytes of arrays, by the names of their roles
    int64_t staging = 0;                   ///< copies of the largest tensor on its way from or to a file

    int64_t process = 0;  ///< beside arrays: `process_bytes`

    int64_t bytes() const;
    /// A line for each: "\n  weights    6.2 GB"
    std::string table() const;
    /// The same for `roles` alone.
    std::string table_of_arrays() const;
};

/// The need of a plan, without `process`. `one_of_several`: this process is one worker; else it has all workers.
MemoryNeed memory_need(const Plan &plan, bool one_of_several);

/// Bytes that staging takes for each element of the largest tensor: in row-major order, in storage order, and in the
/// two arrays of a weight that products read in 16 bits.
constexpr int64_t staging_bytes(bool split) { return split ? 12 : 8; }

/// What a process takes beside its arrays: stacks of its threads, kernels, page tables for `arrays` bytes.
int64_t process_bytes(int threads, int64_t arrays);

}  // namespace cryolite
