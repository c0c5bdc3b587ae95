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

/// A file with these entries: whole bundles, and descriptions of programs.
std::string pack_entries(const std::vector<CacheEntry> &entries);

/// The entries of a packed file, which may be anybody's. Errors name `origin` and what is wrong: an entry is not what
/// it says, lacks a file of its kind or has a changed one; there is something else in the file.
std::vector<PackedEntry> unpack_entries(const std::string &bytes, const std::string &origin);

}  // namespace cryolite
