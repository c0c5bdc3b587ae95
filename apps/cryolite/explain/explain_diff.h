#pragma once
// cryolite explain APP --diff A.schedule B.schedule: how a step with the lines of A differs from one with those of B.

#include <map>
#include <set>

#include "apps/cryolite/report/cost_model.h"
#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// What equal kernels of equal blocks do in one step.
struct KernelWork {
    int calls = 0, measured = 0;  ///< measured: how many of the calls have a measured time; the others' is predicted
    double flops = 0, bytes = 0;
    double roof_seconds = 0;       ///< the least that the machine's roofline allows
    double seconds = 0;            ///< by the cost model
    std::set<std::string> keys{};  ///< as `cost_key` gives them

    void add(const KernelWork &w);
    bool operator==(const KernelWork &) const = default;
};

/// Two steps, compared by kernel.
struct StepDifference {
    struct Row {
        std::string name;
        KernelWork before, after;
    };
    std::vector<Row> rows;  ///< of kernels that differ, the largest change of time first
    KernelWork before, after;
};

/// Compares two steps, by a cost model that learns from the measured kernels of both.
StepDifference difference_of(const Plan &before, const Plan &after, int accumulate, const Roof &roof,
                             const CostModel::Measured &measured, const CostModel::Limit &limit = {});

/// The difference as a table, in which a predicted time has a tilde.
std::string text_of(const StepDifference &d);

/// Prints both steps by kernel: bytes, and the time that was measured on this machine or that the cost model predicts;
/// nothing is compiled. With --json one object. Errors: a file that cannot be read, or whose lines are refused.
int explain_difference(TrainSettings settings, const Request &request, const std::vector<std::string> &files);

}  // namespace cryolite
