#pragma once
// Extents of a dense array, innermost first, as in Halide.

#include <fmt/ranges.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "bundle/error.h"

namespace cryolite {

class Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<int> extents) : extents_(extents) {}
    explicit Shape(std::vector<int> extents) : extents_(std::move(extents)) {}

    int rank() const { return int(extents_.size()); }
    int operator[](int d) const { return extents_.at(d); }
    const std::vector<int> &extents() const { return extents_; }
    bool operator==(const Shape &) const = default;

    /// Number of elements.
    int64_t size() const {
        int64_t n = 1;
        for (int e : extents_) n *= e;
        return n;
    }
    /// This shape with the extent of dimension `d` replaced.
    Shape with(int d, int extent) const {
        Shape s = *this;
        s.extents_.at(d) = extent;
        return s;
    }
    /// The same elements seen in `rank` dimensions: the outer ones folded into the last, or padded with 1.
    Shape folded(int rank) const {
        std::vector<int> e(rank, 1);
        for (int d = 0; d < this->rank(); d++) e[std::min(d, rank - 1)] *= extents_[d];
        return Shape(e);
    }
    std::string str() const { return fmt::format("[{}]", fmt::join(extents_, ", ")); }

private:
    std::vector<int> extents_;
};

}  // namespace cryolite
