#pragma once

#include <string>

#include "generators/driver/program.h"

namespace cryolite::compiler {

/// The parameters that an error of a model comes from, as flags: "--heads 4, --kv-heads 3". These are the numbers
/// without which, at their defaults, there is another error or none; switches, where no number is one. Empty: building
/// the model with what Arguments::current() has gives another error or none, or the defaults alone give an error, too.
/// Afterwards Arguments::current() has other values.
std::string bad_parameters(ModelMaker make, const std::string &error);

}  // namespace cryolite::compiler
