#pragma once

#include "apps/cryolite/report/progress.h"
#include "runtime/cache/cache.h"
#include "runtime/plan/bundle.h"

namespace cryolite {

/// For every product that another dialect may compute, the faster of both on this machine with so many threads, by
/// symbol, from the cache's records or measured now.
std::map<std::string, DialectChoice> faster_dialects(const Bundle &bundle, const Cache &cache, int threads,
                                                     Progress &progress);

}  // namespace cryolite
