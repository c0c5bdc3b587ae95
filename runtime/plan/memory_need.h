#pragma once
// What a run takes in this process, by who holds it.

#include <cstdint>
#include <map>
#include <string>

#include "bundle/plan.h"

namespace cryolite {

struct MemoryNeed {
    std::map<std::string, int64_t> roles;  ///< of arrays, as a plan names them
    int64_t staging = 0;                   ///< copies of the largest tensor on its way from or to a file

    int64_t process = 0;  ///< beside arrays: `process_bytes`

    int64_t bytes() const;
    /// A line for each: "\n  weights    6.2 GB"
    std::string table() const;
    /// The same of `roles` alone.
    std::string table_of_arrays() const;
};

/// Of a plan whose workers are all in this process, or one of them is this one of several; without `process`.
MemoryNeed memory_need(const Plan &plan, bool one_of_several);

/// Bytes that staging takes for each element of the largest tensor: in row-major order, in storage order, and in the
/// two arrays of a weight that products read in 16 bits.
constexpr int64_t staging_bytes(bool split) { return split ? 12 : 8; }

/// What a process takes beside a run's arrays: stacks of its threads, kernels, page tables of so many bytes.
int64_t process_bytes(int threads, int64_t arrays);

}  // namespace cryolite
