#pragma once
// How fast the inner loops of a compiled kernel can be, without running it.

#include <map>
#include <optional>
#include <string>

#include "apps/cryolite/explain/loops/llvm_tools.h"
#include "runtime/cache/cache.h"

namespace cryolite {

/// Predicts by llvm-mca which share of a core's peak of multiply-adds the main loops of a kernel reach, if all that
/// they load is in the L1 cache. A kernel is given by its symbol.
class PortLimit {
public:
    /// The cache has to outlive it.
    explicit PortLimit(const Cache &cache) : cache_(&cache), tools_(find_llvm_tools()) {}
    /// Nothing if the tools or the kernel are missing, or if the kernel has no loop that sums products.
    std::optional<double> operator()(const std::string &symbol) const;

private:
    const Cache *cache_;
    std::optional<LlvmTools> tools_;
    mutable std::map<std::string, std::optional<double>> known_;

    std::optional<double> read(const std::string &symbol) const;
};

}  // namespace cryolite
