#pragma once
// Numbers that tests and the scripts that make their goldens (tests/data) compute alike.

#include "runtime/system/rng.h"

namespace cryolite::test {

/// splitmix64 from the FNV-1a hash of the name.
inline uint64_t formula_bits(const std::string &name, uint64_t i) {
    uint64_t z = stream_named(name) + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

}  // namespace cryolite::test
