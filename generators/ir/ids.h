#pragma once
// Indices of the parts of a step's program. Each kind of part has an index type of its own.

#include <compare>
#include <ranges>
#include <utility>
#include <vector>

namespace cryolite::ir {

template <typename Tag> struct Id {
    int index = -1;

    constexpr Id() = default;
    constexpr explicit Id(int i) : index(i) {}
    constexpr explicit operator bool() const { return index >= 0; }
    constexpr auto operator<=>(const Id &) const = default;
};

using ValueId = Id<struct OfValue>;    ///< an array
using OpId = Id<struct OfOp>;          ///< something that is computed
using KernelId = Id<struct OfKernel>;  ///< operations in one loop nest
using LayerId = Id<struct OfLayer>;
using CallId = Id<struct OfCall>;  ///< a layer, called on values
using ParamId = Id<struct OfParameter>;

/// A list that is indexed by ids of one type.
template <typename T, typename I> class Table {
public:
    I add(T item) {
        list_.push_back(std::move(item));
        return I(size() - 1);
    }
    T &operator[](I id) { return list_.at(size_t(id.index)); }
    const T &operator[](I id) const { return list_.at(size_t(id.index)); }
    int size() const { return int(list_.size()); }
    auto ids() const {
        return std::views::iota(0, size()) | std::views::transform([](int i) { return I(i); });
    }
    auto begin() const { return list_.begin(); }
    auto end() const { return list_.end(); }
    auto begin() { return list_.begin(); }
    auto end() { return list_.end(); }

private:
    std::vector<T> list_;
};

}  // namespace cryolite::ir
