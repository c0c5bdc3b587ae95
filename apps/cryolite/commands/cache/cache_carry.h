#pragma once

#include "runtime/cache/cache.h"

namespace cryolite {

/// `cache export FILE [KEY]`: bundles, all or the one whose key begins so, with what their programs say of themselves.
int export_entries(const Cache &cache, const fs::path &file, const std::string &key);

/// `cache import FILE`: everything of it, once all of it was found to be whole; what the cache has already stays.
int import_entries(const Cache &cache, const fs::path &file);

}  // namespace cryolite
