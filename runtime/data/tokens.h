#pragma once
// A read-only row of tokens, 16 or 32 bits each, in memory of its own or in a file. Copies share it.

#include "runtime/io/error.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cryolite {

/// Data have changed since they were opened, or cannot be read any more.
struct DataError : Error {
    using Error::Error;
};

/// Tokens in a file, which are read where they are asked for.
class TokenFile {
public:
    virtual ~TokenFile() = default;
    virtual size_t size() const = 0;
    /// out[i] = token first + i. Errors: a DataError.
    virtual void copy(size_t first, std::span<int32_t> out) const = 0;
};

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
    explicit TokenStream(std::shared_ptr<const TokenFile> file) : file_(std::move(file)) {}

    size_t size() const { return file_ ? file_->size() : narrow_.size() + wide_.size(); }
    bool empty() const { return size() == 0; }
    int32_t operator[](size_t i) const {
        int32_t token = 0;
        copy(i, std::span(&token, 1));
        return token;
    }

    /// out[i] = token first + i; first + out.size() <= size(). Errors: of tokens in a file, a DataError.
    void copy(size_t first, std::span<int32_t> out) const {
        if (file_) {
            file_->copy(first, out);
        } else if (wide_.empty()) {
            std::copy_n(narrow_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
        } else {
            std::copy_n(wide_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
        }
    }

private:
    std::shared_ptr<const void> owner_;
    std::span<const uint16_t> narrow_;  // one of the two is empty; both where the tokens are in a file
    std::span<const int32_t> wide_;
    std::shared_ptr<const TokenFile> file_;
};

}  // namespace cryolite
