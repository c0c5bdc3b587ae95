#pragma once
// What PyTorch made of layers, from goldens.json, which tests/parity/make_goldens.py writes.

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cryolite::test {

using nlohmann::json;

inline const json &goldens() {
    static const json all = json::parse(std::ifstream(CRYOLITE_SOURCE_DIR "/tests/parity/goldens.json"));
    return all;
}

/// splitmix64 from the FNV-1a hash of the name, in -1 ... 1.
inline std::vector<double> formula(const std::string &name, int64_t count) {
    uint64_t h = 0xcbf29ce484222325u;
    for (char c : name) h = (h ^ uint8_t(c)) * 0x100000001b3u;
    std::vector<double> v;
    for (int64_t i = 1; i <= count; i++) {
        uint64_t z = h + uint64_t(i) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        v.push_back(2 * (double((z ^ (z >> 31)) >> 11) * 0x1p-53) - 1);
    }
    return v;
}

}  // namespace cryolite::test
