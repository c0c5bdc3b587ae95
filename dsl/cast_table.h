#pragma once
// The cast table: which values of each kind of layer are in the model's narrow format. A layer names its kind with
// `cast_row()`. A model makes an exception with `layer.numerics(fp32)` or `layer.numerics({.inputs = true})`.

#include <array>
#include <span>

#include "bundle/number_format.h"

namespace cryolite {

/// Which values of a layer are in the model's narrow format (16 bits). The layer computes and sums in fp32 in any case.
struct Casts {
    bool inputs = false;    ///< inputs are read in the narrow format
    bool output = false;    ///< the output and its adjoint may be stored in it
    bool products = false;  ///< both factors of each product, weights too, are rounded to it; sums are not
};

/// The kind of a layer, as the cast table knows it: a row of the table.
enum class CastRow {
    other,          ///< losses, sums, gathers, convolutions, ...: fp32
    product,        ///< y = W x + b, and a tied head
    attention,      ///< the softmax is fp32; with fp16 both products are fp32, too
    pointwise,      ///< activations, gates, dropout, elementwise arithmetic
    normalisation,  ///< inputs are fp32, so that the statistics of a row are exact enough
};
inline constexpr std::array<const char *, 5> cast_row_names{"other", "product", "attention", "pointwise",
                                                            "normalisation"};

struct CastLine {
    CastRow row;
    Casts casts;
};

// Parameters that no product reads, their gradients, the optimizer's state, sums over rows, statistics, the loss and
// the model's results are fp32 in every format.

/// bf16 has the range of fp32 and 8 bits of precision: gradients need no loss scaling.
inline constexpr CastLine bf16_casts[] = {
    {CastRow::product, {.inputs = true, .output = true, .products = true}},
    {CastRow::attention, {.inputs = true, .output = true, .products = true}},
    {CastRow::pointwise, {.inputs = true, .output = true}},
    {CastRow::normalisation, {.output = true}},
};

/// fp16 has 11 bits of precision and no number beyond 65504: the loss is scaled, so that small adjoints are not lost.
inline constexpr CastLine fp16_casts[] = {
    {CastRow::product, {.inputs = true, .output = true, .products = true}},
    {CastRow::attention, {.inputs = true, .output = true}},
    {CastRow::pointwise, {.inputs = true, .output = true}},
    {CastRow::normalisation, {.output = true}},
};

/// The table of each format, in the order of Format.
inline constexpr std::array<std::span<const CastLine>, std::size(number_formats)> cast_table{
    std::span<const CastLine>(), bf16_casts, fp16_casts};

/// The line of a row in a format's table; a row without a line is fp32.
constexpr Casts casts_of(Format format, CastRow row) {
    for (const CastLine &line : cast_table[size_t(format)])
        if (line.row == row) return line.casts;
    return {};
}

}  // namespace cryolite
