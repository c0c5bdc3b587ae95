#pragma once
// Tunables, the numbers of a loop schedule that a line may set: `loops(h.*.mlp.c_fc, forward): rows=4`. A loop schedule
// asks for a tunable where it uses it, and gives the usual value and the legal values.

#include <map>
#include <string>
#include <vector>

namespace cryolite {

/// Whether other values of a tunable add the terms of a sum in another order.
enum class Sums { same_order, other_order };

struct Tunable {
    std::string name;
    int value = 0;  ///< the value in use
    int usual = 0;  ///< the value where no line sets one
    std::vector<int> legal;
    Sums sums = Sums::same_order;

    std::string legal_words() const;  ///< "1, 2 or 4"
};

class Tunables {
public:
    struct Given {
        int value = 0;
        std::string source;  ///< where the line was written: "my.schedule:3:25"
    };
    std::map<std::string, Given> given;
    std::vector<Tunable> declared;  ///< in the order in which the loop schedule asked

    /// The value to use: the given one, else `usual`. Errors: the given value is not legal.
    int operator()(const std::string &name, int usual, std::vector<int> legal, Sums sums = Sums::same_order);
};

/// From `first` to `last`.
std::vector<int> whole_numbers(int first, int last);
/// 1, 2, 4, ... and `last` itself.
std::vector<int> doublings(int last);

}  // namespace cryolite
