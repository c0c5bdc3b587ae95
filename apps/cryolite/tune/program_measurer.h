#pragma once
// Candidates through the generator program, which compiles and compares them, and through this command as a child,
// which times them.

#include "apps/cryolite/session/settings.h"
#include "apps/cryolite/report/roof.h"
#include "apps/cryolite/tune/search_page.h"
#include "client/programs.h"

namespace cryolite {

class ProgramMeasurer : public Measurer {
public:
    /// `work`: a folder that is gone after the search. `base`: lines that come before those of the search.
    ProgramMeasurer(const Program &program, const TrainSettings &settings, const Cache &cache, fs::path work,
                    int threads, std::string base);

    /// The kernels of the step that have numbers, with their shares; `step_seconds` is the step's time.
    std::vector<SearchKernel> kernels(double &step_seconds);
    /// The step with these lines, timed by itself. Errors: it cannot be compiled, or timed.
    StepProfile profile(const std::string &lines);
    /// Lines of the step schedule that may be legal: what is placed elsewhere, in its own kernel, and the other way
    /// round; other panels. The compiler judges them.
    std::vector<std::string> moves();

    std::vector<MadeKernel> make(const SearchKernel &kernel, const std::vector<std::string> &numbers) override;
    Timing time_kernel(const SearchKernel &kernel, const MadeKernel &before, const MadeKernel &after) override;
    Timing time_step(const std::string &before, const std::string &after) override;
    /// The step with these lines after the base, beside the one with neither.
    Timing time_beside_shipped(const std::string &lines);

private:
    const Program &program_;
    const TrainSettings &settings_;
    const Cache &cache_;
    const fs::path work_, self_;
    const int threads_;
    const std::string base_;
    fs::path bundle_;  ///< with none of the search's lines
    const Roof roof_;
    int made_ = 0;

    struct SymbolTimes {
        double step = 0;
        std::map<std::string, double> seconds;  ///< by symbol
    };
    BundleRequest request(const std::string &lines) const;
    Timing time_steps(const BundleRequest &before, const BundleRequest &after);
    SymbolTimes time_calls(const fs::path &bundle) const;
    std::map<std::string, double> roof_of_symbols(const Plan &plan) const;
    std::string ask_child(const std::string &job, double seconds, std::string &refused) const;
    Timing timing_of(const std::string &job, double seconds) const;
};

/// The moves of a plan.
std::vector<std::string> moves_of(const Plan &plan);

}  // namespace cryolite
