#pragma once
// How well the cost model predicts what a line of a schedule gains: what `tune --check-model` does.

#include "apps/cryolite/tune/search.h"

namespace cryolite {

/// Times of a step with a line, each as a fraction of the time of the step without it.
struct CheckedLine {
    std::string line;
    double model = 1;    ///< predicted before any kernel that the line adds was timed
    double kernels = 1;  ///< predicted as the sum of the measured times of its kernels
    double measured = 1, noise = 0;

    /// Whether the line changes the step's time by enough to judge a prediction.
    bool counts() const;
};

/// Whether the predicted change has the right sign, and is within a third of the measured change.
bool is_right(double predicted, double measured);

struct ModelCheck {
    std::vector<CheckedLine> lines{};
    int refused = 0, busy = 0;  ///< lines that were not legal or could not be run; lines that could not be timed
    int counted() const;
    int right(double CheckedLine::*predicted) const;  ///< of the lines that count, those that it is right for
};

/// Times legal lines of the step schedule and of the loops of the step's kernels, until `lines` of them count, no time
/// is left or there are no more. The lines with the largest predicted change come first. Each is timed in several
/// processes. `tell` is called with each line that was timed. Errors: the step cannot be compiled or timed.
ModelCheck check_model(Measurer &measurer, SearchRecords &records, int lines,
                       const std::function<double()> &seconds_left,
                       const std::function<void(const CheckedLine &)> &tell);

}  // namespace cryolite
