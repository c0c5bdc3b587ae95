#pragma once
// The cast table: what each kind of layer has in a narrow format. A line of the model is an exception,
// `layer.numerics(fp32)` or `layer.numerics({.inputs = true})`; a layer says of which kind it is by `cast_row()`.

#include <array>
#include <span>

#include "bundle/number_format.h"

namespace cryolite {

/// What a layer has in the model's narrow format, of 16 bits. Whatever it says, it computes and sums in fp32.
struct Casts {
    bool inputs = false;    ///< inputs are read in it
    bool output = false;    ///< the output may be stored in it, and its adjoint
    bool products = false;  ///< both factors of its products are rounded to it, weights among them; their sums are not
};

/// What a layer is to number formats: a row of the table.
enum class CastRow {
    other,          ///< losses, sums, gathers, convolutions, ...: fp32
    product,        ///< y = W x + b, and a tied head
    attention,      ///< the softmax is fp32; in fp16 both products are, too
    pointwise,      ///< activations, gates, dropout, elementwise arithmetic
    normalisation,  ///< a row's statistics want its inputs in fp32
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

/// fp16 has 11 bits of precision and ends at 65504: the loss is scaled, so that small adjoints are not lost.
inline constexpr CastLine fp16_casts[] = {
    {CastRow::product, {.inputs = true, .output = true, .products = true}},
    {CastRow::attention, {.inputs = true, .output = true}},
    {CastRow::pointwise, {.inputs = true, .output = true}},
    {CastRow::normalisation, {.output = true}},
};

/// In the order of Format.
inline constexpr std::array<std::span<const CastLine>, std::size(number_formats)> cast_table{
    std::span<const CastLine>(), bf16_casts, fp16_casts};

/// The line of a row in a format's table; a row without a line is fp32.
constexpr Casts casts_of(Format format, CastRow row) {
    for (const CastLine &line : cast_table[size_t(format)])
        if (line.row == row) return line.casts;
    return {};
}

}  // namespace cryolite
