#pragma once
// A read-only row of tokens, 16 or 32 bits each, in memory of its own or in a mapped file. Copies
// share it.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cryolite {

class TokenStream {
public:
    TokenStream() = default;
    explicit TokenStream(std::vector<uint16_t> tokens) {
        auto owner = std::make_shared<const std::vector<uint16_t>>(std::move(tokens));
        narrow_ = *owner;
        owner_ = std::move(owner);
    }
    explicit TokenStream(std::vector<int32_t> tokens) {
        auto owner = std::make_shared<const std::vector<int32_t>>(std::move(tokens));
        wide_ = *owner;
        owner_ = std::move(owner);
    }
    /// Tokens in memory that `owner` keeps.
    TokenStream(std::shared_ptr<const void> owner, std::span<const uint16_t> tokens)
        : owner_(std::move(owner)), narrow_(tokens) {}

    size_t size() const { return narrow_.size() + wide_.size(); }
    bool empty() const { return size() == 0; }
    int32_t operator[](size_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }

    /// out[i] = token first + i; first + out.size() <= size().
    void copy(size_t first, std::span<int32_t> out) const {
        if (wide_.empty()) {
            std::copy_n(narrow_.begin() + static_cast<std::ptrdiff_t>(first), out.size(),
                        out.begin());
        } else {
            std::copy_n(wide_.begin() + static_cast<std::ptrdiff_t>(first), out.size(),
                        out.begin());
        }
    }

private:
    std::shared_ptr<const void> owner_;
    std::span<const uint16_t> narrow_;  // one of the two is empty
    std::span<const int32_t> wide_;
};

}  // namespace cryolite
