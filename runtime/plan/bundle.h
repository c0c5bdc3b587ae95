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

    /// Opens plan.json and kernels.so among `files`, and before them halide_runtime.so, where kernels for a device need
    /// more of Halide's runtime than this process has. `dialects`: by a kernel's symbol, what computes it instead of
    /// its compiled code. Errors name the file and what is wrong.
    explicit Bundle(OpenFiles files, const std::map<std::string, DialectChoice> &dialects = {});
    /// The bundle in a folder that is not part of a cache: its files are not verified.
    explicit Bundle(const fs::path &folder, const std::map<std::string, DialectChoice> &dialects = {});
    Bundle(const Bundle &) = delete;

private:
    OpenFiles files_;

public:
    const Plan plan;
    /// A path of the kernels' library, for other programs, which may read it while this lives.
    fs::path library() const { return files_.at("kernels.so")->link(); }
    /// The function of kernel `k`; null: it has no compiled code.
    Function kernel(int k) const { return functions_.at(size_t(k)); }

private:
    std::optional<Library> halide_, library_;
    std::vector<Function> functions_;
};

}  // namespace cryolite
