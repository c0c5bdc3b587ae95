#pragma once
// The cast table: what each kind of layer has in a narrow format. A line of the model is an exception,
// `layer.numerics(fp32)` or `layer.numerics({.inputs = true})`; a layer says of which kind it is by `cast_row()`.

#include <array>

namespace cryolite {

enum class Format { fp32, bf16, fp16 };
inline constexpr Format fp32 = Format::fp32, bf16 = Format::bf16, fp16 = Format::fp16;
/// As flags spell them.
constexpr const char *format_name(Format f) { return f == bf16 ? "bf16" : f == fp16 ? "fp16" : "fp32"; }

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
    attention,      ///< softmax and both products are fp32
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
    {CastRow::attention, {.inputs = true, .output = true}},
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

/// The line of a row in a format's table; a row without a line is fp32.
constexpr Casts casts_of(Format format, CastRow row) {
    auto find = [row](const auto &table) {
        for (const CastLine &line : table)
            if (line.row == row) return line.casts;
        return Casts{};
    };
    return format == bf16 ? find(bf16_casts) : format == fp16 ? find(fp16_casts) : Casts{};
}

}  // namespace cryolite
