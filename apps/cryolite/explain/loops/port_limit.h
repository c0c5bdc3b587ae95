#pragma once
// What the inner loops of a compiled kernel allow it, without a clock.

#include <map>
#include <optional>
#include <string>

#include "apps/cryolite/explain/loops/llvm_tools.h"
#include "runtime/cache/cache.h"

namespace cryolite {

/// By llvm-mca: which share of a core's multiply-adds the main loops of a kernel reach, were all that they load in the
/// first cache. Kernels are asked for by symbol.
class PortLimit {
public:
    /// The cache has to outlive it.
    explicit PortLimit(const Cache &cache) : cache_(&cache), tools_(find_llvm_tools()) {}
    /// Nothing where the tools or the kernel are missing, or it has no loop that sums products.
    std::optional<double> operator()(const std::string &symbol) const;

private:
    const Cache *cache_;
    std::optional<LlvmTools> tools_;
    mutable std::map<std::string, std::optional<double>> known_;

    std::optional<double> read(const std::string &symbol) const;
};

}  // namespace cryolite
