#pragma once
// Where the elements of a parameter (and of its gradient and optimizer state) are stored.

#include <vector>

#include "dsl/shape.h"

namespace cryolite {

/// Row-major, or panels: dimension `dim` is cut into blocks of `panel` elements. The place in a block is the innermost
/// dimension in storage, the number of the block the outermost. The last block is padded with zeros. W [out, in] in
/// panels of 48 is stored as [48, in, ceil(out / 48)].
struct Layout {
    int panel = 0;  ///< 0: row-major
    int dim = 0;

    bool row_major() const { return panel == 0; }
    bool operator==(const Layout &) const = default;

    /// Extents in storage of an array of this logical shape.
    Shape storage(const Shape &logical) const {
        if (row_major()) return logical;
        std::vector<int> e = {panel};
        for (int d = 0; d < logical.rank(); d++)
            if (d != dim) e.push_back(logical[d]);
        e.push_back((logical[dim] - 1) / panel + 1);
        return Shape(e);
    }
    /// Storage indices, numbers or expressions, of the element at logical indices `at`.
    template <typename Index> std::vector<Index> to_storage(const std::vector<Index> &at) const {
        if (row_major()) return at;
        std::vector<Index> s = {at[dim] % panel};
        for (int d = 0; d < int(at.size()); d++)
            if (d != dim) s.push_back(at[d]);
        s.push_back(at[dim] / panel);
        return s;
    }
    /// Logical indices of the element stored at `s`; the padding of the last panel lies past the extent.
    template <typename Index> std::vector<Index> to_logical(const std::vector<Index> &s) const {
        if (row_major()) return s;
        std::vector<Index> at(s.begin() + 1, s.end() - 1);
        at.insert(at.begin() + dim, s.back() * panel + s.front());
        return at;
    }
    /// Whether the last panel of an array of this shape has padding.
    bool padded(const Shape &logical) const { return !row_major() && logical[dim] % panel != 0; }
};

inline Layout row_major() { return {}; }
inline Layout panels(int width, int dim = 0) {
    if (width == 0)
        fail("panels(0, {}): a panel has one element or more; for rows without panels write row_major()", dim);
    return {width, dim};
}

}  // namespace cryolite
