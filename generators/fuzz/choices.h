#pragma once
// The numbers that a random model is made of. Any numbers make a model, so that a fuzzer may change them as it likes. 0
// stands for the simplest choice, and missing numbers are 0.

#include <string>
#include <vector>

namespace cryolite::fuzz {

/// A group of numbers that decides one thing. Its numbers are taken in order.
class Choices {
public:
    explicit Choices(std::vector<int> numbers = {}) : numbers(std::move(numbers)) {}
    /// In 0 ... n - 1.
    int take(int n) { return at < numbers.size() ? numbers[at++] % n : 0; }
    /// One of these; the first where the choice is 0.
    template <typename T> T of(const std::vector<T> &list) { return list[size_t(take(int(list.size())))]; }

private:
    std::vector<int> numbers;
    size_t at = 0;
};

/// Reads groups of numbers from 0 to 255: "1.0.3/4.2". Throws where the text is something else.
std::vector<Choices> read_choices(const std::string &text);

}  // namespace cryolite::fuzz
