#pragma once
// confusion.svg: what a classifier takes for what, in any browser.

#include <cstdint>
#include <string>
#include <vector>

namespace cryolite {

/// Of more classes there is no picture: it would show no numbers.
inline constexpr int most_confused = 50;

/// Rows are labels, columns answers: counts[label * classes + answer], darker where more of the label's rows have it.
/// Errors: counts of another number of classes.
std::string confusion_svg(const std::string &title, int classes, const std::vector<uint64_t> &counts);

}  // namespace cryolite
