#pragma once
// What a bundle of the cache was made from, and which comes nearest to one that is asked for.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/cache.h"

namespace cryolite {

/// What the manifest of a bundle says, for people.
struct BundleAbout {
    std::string app = "?", flags;
    int kernels = 0;
};
BundleAbout bundle_about(const CacheEntry &entry);

/// The time since it was published: "3 min".
std::string age_of(const CacheEntry &entry);

/// The parts of a bundle's key (programs.h: bundle_parts) as a flat table: name -> value; parameters as flags.
std::map<std::string, std::string> flat_parts(const std::string &parts);

/// The parts of two bundles' keys (programs.h: bundle_parts) that differ, a line each:
/// "--width 12 -> 16", "the program: ...".
std::vector<std::string> differences(const std::string &before, const std::string &now);

/// The undamaged bundle of the cache whose key differs least from that of `parts` (of several the newest), and how.
struct NearestBundle {
    CacheEntry entry;
    std::vector<std::string> differs;
};
std::optional<NearestBundle> nearest_bundle(const Cache &cache, const std::string &parts);

}  // namespace cryolite
