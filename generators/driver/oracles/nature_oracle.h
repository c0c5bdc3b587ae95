#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Builds each operation's algorithm in a child process, as no Func exists in this one. What does not build has no
/// answer: who asks for its reads says why.
NatureOracle natures_by_building(int jobs, int time_limit);
/// The same, of whole layers.
ProductOracle products_by_building(int jobs, int time_limit);

}  // namespace cryolite::compiler
