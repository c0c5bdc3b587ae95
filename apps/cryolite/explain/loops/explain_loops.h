#pragma once
// What `explain APP KERNEL` says of the inner loops of a kernel.

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "apps/cryolite/explain/loops/llvm_tools.h"

namespace cryolite {

/// The main loops of a bundle's kernels, as LLVM's tools see them on this machine's processor.
class LoopReport {
public:
    /// `library`: kernels.so of the bundle. Without the tools it says once what to install.
    explicit LoopReport(const fs::path &library);
    /// A kernel's loops, the first time it is asked for: their listing, multiply-adds, spills, share of the port limit.
    void print(const std::string &symbol);
    /// The same as JSON, each time; null where the tools are missing.
    nlohmann::json to_json(const std::string &symbol);

private:
    struct Judged {
        std::vector<SumLoop> loops;
        std::vector<LoopSpeed> speeds;
    };
    std::optional<LlvmTools> tools_;
    std::vector<SumLoop> loops_;
    std::map<std::string, Judged> judged_;
    std::set<std::string> printed_;

    const Judged &judged(const std::string &symbol);
};

}  // namespace cryolite
