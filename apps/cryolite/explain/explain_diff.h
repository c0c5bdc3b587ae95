#pragma once
// cryolite explain APP --diff A.schedule B.schedule: what the lines of one file buy beside those of another.

#include <map>
#include <set>

#include "apps/cryolite/report/cost_model.h"
#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// What equal kernels of equal blocks do in one step.
struct KernelWork {
    int calls = 0, measured = 0;  ///< measured: of the calls, those whose time was, the others' being predicted
    double flops = 0, bytes = 0;
    double roof_seconds = 0;       ///< that the machine's roofline allows
    double seconds = 0;            ///< that they take, by the cost model
    std::set<std::string> keys{};  ///< of their code

    void add(const KernelWork &w);
    bool operator==(const KernelWork &) const = default;
};

/// Two steps by kernel.
struct StepDifference {
    struct Row {
        std::string name;
        KernelWork before, after;
    };
    std::vector<Row> rows;  ///< of kernels that differ, those whose time does most first
    KernelWork before, after;
};

/// By a cost model that learns from what was measured of either.
StepDifference difference_of(const Plan &before, const Plan &after, int accumulate, const Roof &roof,
                             const CostModel::Measured &measured, const CostModel::Limit &limit = {});

/// As a table, in which a predicted time has a tilde.
std::string text_of(const StepDifference &d);

/// Prints both steps by kernel: bytes, and the time that was measured on this machine or that the cost model predicts;
/// nothing is compiled. With --json one object. Errors: a file that cannot be read, or whose lines are refused.
int explain_difference(TrainSettings settings, const Request &request, const std::vector<std::string> &files);

}  // namespace cryolite
