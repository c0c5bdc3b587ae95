#pragma once

#include "generators/driver/program.h"

namespace cryolite::compiler {

/// The description of a program with the parameters that it was given, as one line of JSON
/// (bundle/program_description.h). `rules`: all optimizers that the program knows.
std::string description_of(const ProgramInfo &info, Model &model, const decltype(ProgramInfo::optimizers) &rules);

/// The names and shapes of the model's weights, as one line of JSON: [{"name": N, "shape": [outermost extent first]}].
std::string weights_of(Model &model);

}  // namespace cryolite::compiler
