#pragma once
// What a step's calls take: as they were measured on this machine, or else as the roofline predicts.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "apps/cryolite/report/roof.h"

namespace cryolite {

/// By which a kernel's measured time is known: its compiled code, or the dialect that computes it and on what.
std::string cost_key(const PlanKernel &kernel);

/// Seconds of a call.
struct CallCost {
    double seconds = 0;
    bool measured = false;  ///< else predicted
};

class CostModel {
public:
    /// `measured`: seconds of a call of a kernel, by `cost_key`; nothing where it was never timed.
    using Measured = std::function<std::optional<double>(const std::string &)>;

    /// `limit`: which share of the peak the inner loops of a kernel allow, by symbol; nothing where that is not known.
    using Limit = std::function<std::optional<double>(const std::string &)>;

    explicit CostModel(const Roof &roof, Measured measured = {}, Limit limit = {})
        : roof_(roof), measured_(std::move(measured)), limit_(std::move(limit)) {}

    /// Which share of the roofline measured kernels of a plan reach.
    void learn(const Plan &plan, const std::vector<const PlanCall *> &calls);
    /// A kernel that was never timed takes the roofline's time over the share that those most like it reach: of the
    /// same name, else those that hold its stages, of the same layer and form, of the same pass and bound, or
    /// all. Where none was timed, it takes the roofline's time. Where its inner loops' limit and theirs are known, each
    /// has its own roofline, whose peak is that limit's.
    CallCost cost(const Plan &plan, const PlanCall &call) const;

private:
    struct Work {
        std::string symbol;
        double flops;
        int64_t bytes;
    };
    struct Share {
        double roof = 0, seconds = 0;
        std::vector<Work> of = {};
    };
    Roof roof_;
    Measured measured_;
    Limit limit_;
    std::map<std::string, Share> shares_;  ///< by how kernels are alike

    std::vector<std::set<std::string>> likenesses(const Plan &plan, const PlanCall &call) const;
    std::optional<double> measured(const Plan &plan, const PlanCall &call) const;
    double as_alike(const Work &w, const std::vector<const Share *> &alike) const;
};

}  // namespace cryolite
