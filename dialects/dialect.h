#pragma once
// Another implementation of operators, beside the kernels that Halide compiles.

#include <memory>
#include <string>
#include <vector>

#include "dialects/gpu_stream.h"
#include "dialects/table.h"

namespace cryolite {

/// A product with its arguments, ready to run any number of times.
class Ready {
public:
    virtual ~Ready() = default;
    /// As a Halide kernel runs: parallel loops by `halide_do_par_for`, temporaries by `halide_malloc`. 0,
    /// or an error's code.
    virtual int run(void *context) = 0;
};

/// A product as devices call kernels: argv is the address of the context, then the product.
inline int run_ready(void **argv) { return static_cast<Ready *>(argv[1])->run(*static_cast<void **>(argv[0])); }

/// Where a product finds its arguments: addresses of the device, which stay.
struct ProductPlace {
    std::vector<void *> arguments;
    void *workspace = nullptr;  ///< of so many bytes, for it alone while it runs
    size_t workspace_bytes = 0;
    GpuStream *gpu = nullptr;  ///< null: on the CPU
};

/// What a dialect's library makes: it is asked for `cryolite_dialect`.
class Dialect {
public:
    virtual ~Dialect() = default;
    /// Its library's, for records of its speed.
    virtual std::string version() const = 0;
    /// What this machine lacks for it, and what helps; empty: nothing.
    virtual std::string missing() const { return ""; }
    /// On a GPU it may run to be timed: what its results hold is lost. Throws where the library cannot do it.
    virtual std::unique_ptr<Ready> prepare(const Product &p, const ProductPlace &place) const = 0;
};

/// Its library, loaded when it is first asked for; null where this build has none.
const Dialect *load_dialect(const std::string &name);
/// What to do where that is null.
std::string how_to_get(const std::string &name);

}  // namespace cryolite
