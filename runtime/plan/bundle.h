#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bundle/plan.h"
#include "runtime/plan/library.h"

namespace cryolite {

/// Reads and checks a plan; errors name the file and what is wrong in it.
Plan load_plan(const fs::path &path);

/// What a generator emitted: a plan and a shared library of kernels.
class Bundle {
public:
    using Function = int (*)(void **);

    /// Opens plan.json and kernels.so among `files`, and before it halide_runtime.so where the kernels need more of
    /// Halide's runtime than this process has: its functions for a device. Errors name the file and what is wrong.
    /// `dialects`: what computes which kernels instead of their compiled code, by symbol.
    explicit Bundle(OpenFiles files, const std::map<std::string, DialectChoice> &dialects = {});
    /// The bundle in a folder of one's own, which nobody has checked.
    explicit Bundle(const fs::path &folder, const std::map<std::string, DialectChoice> &dialects = {});
    Bundle(const Bundle &) = delete;

private:
    OpenFiles files_;

public:
    const Plan plan;
    /// A path of the library of kernels, for a program that reads it while this lives.
    fs::path library() const { return files_.at("kernels.so")->link(); }
    /// Null: it has no compiled code.
    Function kernel(int k) const { return functions_.at(size_t(k)); }

private:
    std::optional<Library> halide_, library_;
    std::vector<Function> functions_;
};

}  // namespace cryolite
