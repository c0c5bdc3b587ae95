#pragma once
// confusion.svg: a classifier's confusion matrix, for any browser.

#include <cstdint>
#include <string>
#include <vector>

namespace cryolite {

/// The most classes of a picture: its numbers could not be read with more.
inline constexpr int most_confused = 50;

/// Rows are labels, columns answers: counts[label * classes + answer], darker for a larger share of the label's rows.
/// `names`: of the classes, beside the rows; may be empty. Errors: counts or names of another number of classes.
std::string confusion_svg(const std::string &title, int classes, const std::vector<uint64_t> &counts,
                          const std::vector<std::string> &names = {});

}  // namespace cryolite
