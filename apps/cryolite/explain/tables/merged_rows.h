#pragma once
// Merges rows of a table that are equal for several blocks of a model.

#include <string>
#include <vector>

namespace cryolite {

struct MergedRow {
    size_t first;      ///< the index of the first row that it stands for
    std::string name;  ///< of several rows: with a star for the block, and which blocks, if other rows share the name
    int count = 1;
};

struct BlockRow {
    std::string name;     ///< "h.0.mlp.c_fc.weight"
    std::string columns;  ///< all else that the row shows: only rows that are equal in it are merged
};

/// The merged rows, in the order of the first row of each.
std::vector<MergedRow> merged_rows(const std::vector<BlockRow> &rows);

}  // namespace cryolite
