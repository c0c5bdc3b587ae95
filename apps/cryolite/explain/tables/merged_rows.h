#pragma once
// Rows of a table that are equal for several blocks of a model, as one.

#include <string>
#include <vector>

namespace cryolite {

struct MergedRow {
    size_t first;      ///< of the rows that it stands for
    std::string name;  ///< its own, of one row; of several with a star for the block, and which blocks where not all
    int count = 1;
};

struct BlockRow {
    std::string name;     ///< "h.0.mlp.c_fc.weight"
    std::string columns;  ///< all else that the row shows: only rows that are equal in it are merged
};

/// In the order of the first of each.
std::vector<MergedRow> merged_rows(const std::vector<BlockRow> &rows);

}  // namespace cryolite
