#pragma once
// Small GPTs for tests of kernels.

#include <string>
#include <utility>
#include <vector>

namespace cryolite::test {

using ModelArguments = std::vector<std::pair<std::string, std::string>>;

/// No extent fills its vectors or panels.
inline ModelArguments ragged_gpt(const char *batch = "2") {
    return {{"layers", "1"}, {"heads", "5"}, {"width", "35"}, {"context", "19"}, {"batch", batch}, {"vocab", "53"}};
}
/// The same, with shared heads of keys.
inline ModelArguments ragged_llama() {
    return {{"layers", "1"},   {"heads", "6"},    {"kv-heads", "2"}, {"width", "84"},
            {"hidden", "101"}, {"context", "37"}, {"batch", "2"},    {"vocab", "67"}};
}
/// Few rows, a prime number of them, and weights in whole panels: products of few rows have loops of their own.
inline ModelArguments few_rows_gpt() {
    return {{"layers", "1"}, {"heads", "5"}, {"width", "80"}, {"context", "37"}, {"batch", "1"}, {"vocab", "89"}};
}
/// Few rows that fill the lanes of 1, 2 or 3 vectors, and a prime number of words in padded panels.
inline ModelArguments whole_vectors_gpt(const char *rows) {
    return {{"layers", "1"}, {"heads", "5"}, {"width", "80"}, {"context", rows}, {"batch", "1"}, {"vocab", "1031"}};
}
/// Every extent does.
inline ModelArguments aligned_gpt() {
    return {{"layers", "1"}, {"heads", "2"}, {"width", "64"}, {"context", "32"}, {"batch", "2"}, {"vocab", "96"}};
}

}  // namespace cryolite::test
