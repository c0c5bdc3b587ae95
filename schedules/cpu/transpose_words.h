#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for copies of a factor in words, float32 or pairs of 16 bits, where lanes run along rows of the
/// source and the loop around them along its columns. Halide loads such a vector element by element. The pass makes it
/// a transposition: it loads eight words of each row at once, and exchanges them between the rows' vectors. It leaves
/// copies whose length is no multiple of eight words. The pass changes no value.
void transpose_words(Halide::Pipeline &p);

}  // namespace cryolite::cpu
