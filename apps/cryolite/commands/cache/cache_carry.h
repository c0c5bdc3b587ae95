#pragma once

#include "runtime/cache/cache.h"

namespace cryolite {

/// `cache export FILE [KEY]`: writes all bundles, or the one whose key begins with `key`, and the descriptions of their
/// programs, to a file.
int export_entries(const Cache &cache, const fs::path &file, const std::string &key);

/// `cache import FILE`: takes in all entries of a file, after a check that all are whole. Entries that the cache has
/// already stay.
int import_entries(const Cache &cache, const fs::path &file);

}  // namespace cryolite
