#pragma once
// How long a step's calls take: as measured on this machine, or else as the roofline predicts.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "apps/cryolite/report/roof.h"

namespace cryolite {

/// The key of a kernel's measured time: the symbol of its compiled code, or the dialect that computes it with the types
/// and extents of its arguments.
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

    /// Learns which share of the roofline the measured kernels of a plan reach.
    void learn(const Plan &plan, const std::vector<const PlanCall *> &calls);
    /// The measured time, or else a prediction: the roofline's time over the share of it that the most similar measured
    /// kernels reach. These have the same name, or else the same stages, the same layer and form, the same pass and
    /// bound, or they are all kernels. If none was timed, the prediction is the roofline's time. If the limits of the
    /// inner loops of all these kernels are known, each kernel has its own roofline, with its limit as the peak.
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
    std::map<std::string, Share> shares_;  ///< by the names that `likenesses` gives

    std::vector<std::set<std::string>> likenesses(const Plan &plan, const PlanCall &call) const;
    std::optional<double> measured(const Plan &plan, const PlanCall &call) const;
    double as_alike(const Work &w, const std::vector<const Share *> &alike) const;
};

}  // namespace cryolite
