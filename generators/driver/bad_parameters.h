#pragma once

#include <string>

#include "generators/driver/program.h"

namespace cryolite::compiler {

/// The parameters that an error of a model comes from, as flags: "--heads 4, --kv-heads 3". With all of them at their
/// defaults the model can be built. If one alone at its default is enough, only such ones are named. Empty: building
/// the model with what Arguments::current() has gives another error or none, or the defaults give an error as well.
/// Afterwards Arguments::current() has other values.
std::string bad_parameters(ModelMaker make, const std::string &error);

}  // namespace cryolite::compiler
