#pragma once
// In how many dimensions kernels see their values.

#include "bundle/error.h"
#include "generators/ir/program.h"

namespace cryolite::ir {

/// Two operations of a kernel see a value in different numbers of dimensions.
struct RanksDiffer : Error {
    RanksDiffer(const std::string &op, const std::string &value, int here, int there);
    std::string op, value;
    int here, there;  ///< as `op` sees it, and as its neighbour does
};

/// In how many dimensions a kernel sees each of its activations: as its layers say; pointwise layers follow
/// their neighbours. Errors: RanksDiffer.
std::map<ValueId, int> kernel_ranks(const Program &p, const Kernel &k);

/// The operation by which a kernel computes once more a value of the forward pass that is not stored.
Op again_here(const Program &p, const Kernel &k, CallId c);

}  // namespace cryolite::ir
