#pragma once
// The numbers that a random model is made of. Any numbers make one, so that a fuzzer may change them as it likes: 0
// stands for the simplest, and what is missing is 0.

#include <string>
#include <vector>

namespace cryolite::fuzz {

/// A group of them, for one thing that is decided: taken in order.
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

/// "1.0.3/4.2": groups of numbers from 0 to 255. Errors: the text is none.
std::vector<Choices> read_choices(const std::string &text);

}  // namespace cryolite::fuzz
