#pragma once
// What `explain --device cuda` says of the launches of a step: grids, blocks, accesses, occupancy. No GPU is needed.

#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "runtime/exec/bundle_launches.h"

namespace cryolite {

class LaunchReport {
public:
    /// `target`: "sm_80", the GPU that is judged.
    LaunchReport(const Bundle &bundle, const std::string &target);

    /// How many launches all calls of a pass make, without products that a library computes.
    int launches(const std::string &pass) const;
    /// A line for each launch of a kernel.
    std::vector<std::string> lines(int kernel);
    nlohmann::json to_json(int kernel);
    /// Explains the lines, and says where the numbers of registers come from.
    std::string legend() const;

private:
    struct Judged {
        KernelLaunch launch;
        int registers = 0, spilled_bytes = 0;
    };
    const Bundle &bundle_;
    const std::string target_;
    int capability_;
    std::string ptxas_;                         ///< its path; empty: it is not found
    std::map<int, std::vector<Judged>> known_;  ///< by kernel

    const std::vector<Judged> &judged(int kernel);
    void ask_ptxas(std::vector<Judged> &launches) const;
};

}  // namespace cryolite
