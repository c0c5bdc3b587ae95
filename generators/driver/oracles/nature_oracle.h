#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Builds each operation's algorithm in a child process, since this process builds no Func. An operation that cannot be
/// built has no answer; the error is reported where its reads are asked for.
NatureOracle natures_by_building(int jobs, int time_limit);
/// The same for the products that whole layers compute.
ProductOracle products_by_building(int jobs, int time_limit);

}  // namespace cryolite::compiler
