#pragma once
// How well the cost model tells what a line buys: what `tune --check-model` does.

#include "apps/cryolite/tune/search.h"

namespace cryolite {

/// A step with a line, as part of the time of the step without it.
struct CheckedLine {
    std::string line;
    double model = 1;    ///< predicted before any of its new kernels was timed
    double kernels = 1;  ///< the sum of its kernels' times, each timed once
    double measured = 1, noise = 0;

    /// Whether it changes the step by so much that a prediction can be judged.
    bool counts() const;
};

/// The right sign, and within a third of the measured change.
bool is_right(double predicted, double measured);

struct ModelCheck {
    std::vector<CheckedLine> lines{};
    int refused = 0, busy = 0;  ///< lines that were not legal or could not be run; that could not be timed
    int counted() const;
    int right(double CheckedLine::*predicted) const;  ///< of those that count
};

/// Times legal lines of a step, of its schedule and of the loops of its kernels, until so many count, no time is left
/// or there are no more. Those whose change is predicted to be largest come first. Each is timed in several processes.
/// `tell` is called with each that was timed. Errors: the step cannot be timed.
ModelCheck check_model(Measurer &measurer, SearchRecords &records, int lines,
                       const std::function<double()> &seconds_left,
                       const std::function<void(const CheckedLine &)> &tell);

}  // namespace cryolite
