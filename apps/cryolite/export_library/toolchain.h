#pragma once
// The C compiler and its tools that make a library from its sources and kernels.

#include <string>
#include <vector>

#include "bundle/plan.h"
#include "runtime/cache/cache.h"

namespace cryolite {

/// This machine's tools, or Debian's that cross compile.
class Toolchain {
public:
    /// For a machine as `uname -m` calls it. Errors: its compiler or the C library is missing; names the packages.
    explicit Toolchain(const std::string &machine);

    /// Lines "CC = ..." for a Makefile; empty: make's defaults are right.
    std::string make_variables() const;
    /// Whether a source of C99 compiles, with the headers beside it.
    bool accepts(const fs::path &source) const;
    /// Links the kernels of a plan into one object, in which only they are global symbols.
    void link_kernels(const Plan &plan, const Cache &cache, const fs::path &object) const;
    /// Builds FOLDER/libNAME.a and libNAME.so from FOLDER/src. In their one object only the library's own functions are
    /// global symbols, so that several libraries can be linked into one program.
    void build_library(const fs::path &folder, const std::string &name) const;

private:
    std::string prefix_, packages_;  ///< "aarch64-linux-gnu-"; empty: this machine's
    std::string compiler() const { return prefix_.empty() ? "cc" : prefix_ + "gcc"; }
    void run(std::vector<std::string> argv, const std::string &packages) const;
    void show_only(const std::string &pattern, const fs::path &from, const fs::path &to) const;
};

}  // namespace cryolite
