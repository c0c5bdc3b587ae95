#pragma once
// Entries of a cache in one file, to be carried to another machine. docs/files.md describes it.

#include <map>
#include <string>
#include <vector>

#include "runtime/cache/cache.h"

namespace cryolite {

struct PackedEntry {
    std::string kind, key, about;
    std::map<std::string, std::string> files;
};

/// Bundles, and what programs say of themselves (descriptions), whole ones.
std::string pack_entries(const std::vector<CacheEntry> &entries);

/// What `pack_entries` made of them. The file may be anybody's: entries are what they say they are, with the files that
/// such entries have, whole, and nothing else is in it. Errors name `origin` and what is wrong.
std::vector<PackedEntry> unpack_entries(const std::string &bytes, const std::string &origin);

}  // namespace cryolite
