#pragma once
// The measurer of `tune`: the generator program compiles and compares candidates, and this command, as a child process,
// times them.

#include "apps/cryolite/session/settings.h"
#include "apps/cryolite/explain/loops/port_limit.h"
#include "apps/cryolite/report/cost_model.h"
#include "apps/cryolite/tune/search_page.h"
#include "client/programs.h"

namespace cryolite {

class ProgramMeasurer : public Measurer {
public:
    /// `work`: a temporary folder, removed after the search. `base`: lines that come before those of the search.
    /// `measured`: the times of kernels that were timed before.
    ProgramMeasurer(const Program &program, const TrainSettings &settings, const Cache &cache, fs::path work,
                    int threads, std::string base, CostModel::Measured measured);

    /// Seconds of the step with these lines. Errors: it cannot be compiled, or timed.
    double step_seconds(const std::string &lines);
    /// The same, measured anew, with the times of its kernels.
    StepProfile profile(const std::string &lines);

    std::vector<SearchKernel> kernels(const std::string &lines) override;
    StepKernels step(const std::string &lines) override;
    std::vector<LineMove> moves(const std::string &lines, const std::set<std::string> &without,
                                double seconds) override;
    CallTimes time_calls(const std::string &lines) override;
    std::vector<MadeKernel> make(const SearchKernel &kernel, const std::vector<std::string> &numbers,
                                 const Made &made) override;
    Timing time_kernel(const SearchKernel &kernel, const MadeKernel &before, const MadeKernel &after) override;
    Timing time_step(const std::string &before, const std::string &after) override;
    /// Times the step with the base and these lines (`after`) beside the shipped step, which has neither (`before`).
    Timing time_beside_shipped(const std::string &lines);

private:
    const Program &program_;
    const TrainSettings &settings_;
    const Cache &cache_;
    const fs::path work_, self_;
    const int threads_;
    const std::string base_;
    mutable std::map<bool, Roof> roofs_;  ///< by whether products are by tiles; measured when first asked for
    const CostModel::Measured measured_;
    const PortLimit limit_;
    int made_ = 0;
    mutable bool said_waiting_ = false;

    struct StepTimes {
        double step = 0;
        CallTimes calls{};
    };
    std::map<std::string, StepTimes> timed_;  ///< by lines

    /// A lock among the searches that share this cache and this machine: either one measures alone, or several compile.
    CacheLock machine(bool alone) const;
    BundleRequest request(const std::string &lines) const;
    const Roof &roof(const Plan &plan) const;
    fs::path made_bundle(const BundleRequest &wanted) const;
    fs::path bundle(const std::string &lines) const;
    Plan plan(const std::string &lines) const;
    const StepTimes &times(const std::string &lines);
    std::vector<StepKernel> kernels_of(const Plan &plan, const CostModel &model) const;
    CostModel model_of(const Plan &plan) const;
    Timing time_steps(const BundleRequest &before, const BundleRequest &after);
    std::string ask_child(const std::string &job, double limit, std::string &refused) const;
    Timing timing_of(const std::string &job, double limit) const;
    double limit_of_steps(const Plan &plan) const;
};

}  // namespace cryolite
