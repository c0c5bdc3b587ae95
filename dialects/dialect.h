#pragma once
// Another implementation of operators, beside the kernels that Halide compiles.

#include <memory>
#include <string>
#include <vector>

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

/// What a dialect's library makes: it is asked for `cryolite_dialect`.
class Dialect {
public:
    virtual ~Dialect() = default;
    /// Its library's, for records of its speed.
    virtual std::string version() const = 0;
    /// `arguments`: the addresses, which stay. Throws where the library cannot do it.
    virtual std::unique_ptr<Ready> prepare(const Product &p, const std::vector<void *> &arguments) const = 0;
};

/// Its library, loaded when it is first asked for; null where this build has none.
const Dialect *load_dialect(const std::string &name);
/// What to do where that is null.
std::string how_to_get(const std::string &name);

}  // namespace cryolite
