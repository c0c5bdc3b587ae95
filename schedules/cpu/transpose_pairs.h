#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for copies of a factor in pairs of 16 bits, where lanes run along rows of the source and the loop
/// around them along its columns. Halide loads such a vector element by element. The pass makes it a transposition: it
/// loads eight pairs of each row at once, and exchanges them between the rows' vectors. It leaves copies whose length
/// is no multiple of eight pairs. The pass changes no value.
void transpose_pairs(Halide::Pipeline &p);

}  // namespace cryolite::cpu
