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
    /// Runs as Halide kernels do: parallel loops by `halide_do_par_for`, temporaries by `halide_malloc`. Returns 0 or
    /// an error code.
    virtual int run(void *context) = 0;
};

/// A product as a kernel that a device can call: argv[0] is the address of the context, argv[1] is the `Ready`.
inline int run_ready(void **argv) { return static_cast<Ready *>(argv[1])->run(*static_cast<void **>(argv[0])); }

/// Where a product finds its arguments: addresses on the device, which never change.
struct ProductPlace {
    std::vector<void *> arguments;
    void *workspace = nullptr;  ///< scratch memory that nothing else uses while the product runs
    size_t workspace_bytes = 0;
    GpuStream *gpu = nullptr;  ///< null: on the CPU
};

/// The interface of a dialect. Its library exports `cryolite_dialect`, a function that returns it.
class Dialect {
public:
    virtual ~Dialect() = default;
    /// The name and version of the library, which recorded times belong to.
    virtual std::string version() const = 0;
    /// What this machine lacks to run the dialect, with a remedy; empty: nothing.
    virtual std::string missing() const { return ""; }
    /// Binds a product to its arguments. On a GPU this may run the product to time it, which overwrites its results.
    /// Throws where the library cannot compute it.
    virtual std::unique_ptr<Ready> prepare(const Product &p, const ProductPlace &place) const = 0;
};

/// The dialect of this name, whose library is loaded at the first call; null where this build has none. Throws where
/// the library cannot be loaded.
const Dialect *load_dialect(const std::string &name);
/// What the user can do where `load_dialect` returns null or throws.
std::string how_to_get(const std::string &name);

}  // namespace cryolite
