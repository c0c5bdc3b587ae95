#pragma once

#include "apps/cryolite/report/progress.h"
#include "runtime/cache/cache.h"
#include "runtime/plan/bundle.h"

namespace cryolite {

/// For every product that another dialect can compute, by symbol: the fastest dialect on this machine with `threads`
/// threads, from the cache's records or measured now.
std::map<std::string, DialectChoice> faster_dialects(const Bundle &bundle, const Cache &cache, int threads,
                                                     Progress &progress);

}  // namespace cryolite
