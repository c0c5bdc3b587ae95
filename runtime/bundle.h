#pragma once

#include <memory>
#include <vector>

#include "runtime/plan.h"

namespace cryolite {

/// What a generator emitted: a plan and a shared library of kernels.
class Bundle {
public:
    using Function = int (*)(void **);

    /// Opens DIR/plan.json and DIR/kernels.so, and before it DIR/halide_runtime.so where the kernels need more of Halide's
    /// runtime than this process has: its functions for a device. Errors name the file and what is wrong.
    /// `dialects`: what computes which kernels instead of their compiled code, by symbol.
    explicit Bundle(const fs::path &folder, const std::map<std::string, DialectChoice> &dialects = {});
    ~Bundle();
    Bundle(const Bundle &) = delete;

    const fs::path folder;
    const Plan plan;
    /// The library of kernels, on disk.
    fs::path library() const { return folder / "kernels.so"; }
    /// Null: it has no compiled code.
    Function kernel(int k) const { return functions_.at(size_t(k)); }

private:
    void *library_ = nullptr;
    std::vector<Function> functions_;
};

}  // namespace cryolite
