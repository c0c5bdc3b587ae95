#include "generators/fuzz/choices.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "bundle/error.h"

namespace cryolite::fuzz {

std::vector<Choices> read_choices(const std::string &text) {
    std::vector<Choices> groups;
    std::istringstream in(text);
    for (std::string group; std::getline(in, group, '/');) {
        std::vector<int> numbers;
        std::istringstream dots(group);
        for (std::string word; std::getline(dots, word, '.');) {
            int n = -1;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
            if (error != std::errc() || end != word.data() + word.size() || n < 0 || n > 255)
                fail("the choices '{}' have '{}', expected numbers from 0 to 255 as in 1.0.3/4.2", text, word);
            numbers.push_back(n);
        }
        groups.emplace_back(std::move(numbers));
    }
    return groups;
}

}  // namespace cryolite::fuzz
