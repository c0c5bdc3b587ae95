#pragma once
// The number formats of a step: a row each, with all that passes, settings and the command know of it.

namespace cryolite {

enum class Format { fp32, bf16, fp16 };
inline constexpr Format fp32 = Format::fp32, bf16 = Format::bf16, fp16 = Format::fp16;

/// What is kept beside a weight that is stored in 16 bits, so that updates use its fp32.
enum class MasterKind {
    none,      ///< weights are fp32
    low_half,  ///< the 16 bits that, with the 16 stored, make the fp32
    whole,     ///< the fp32 itself
};

struct FormatRow {
    Format format;
    const char *name;  ///< as flags spell it
    MasterKind master = MasterKind::none;
    bool scales_loss = false;  ///< adjoints are too small for it, so that the loss is multiplied by a scale

    /// Whether values of 16 bits are stored.
    constexpr bool is_narrow() const { return master != MasterKind::none; }
};

/// In the order of Format.
inline constexpr FormatRow number_formats[] = {
    {fp32, "fp32"},
    {bf16, "bf16", MasterKind::low_half},
    {fp16, "fp16", MasterKind::whole, true},
};

constexpr const FormatRow &row_of(Format f) { return number_formats[int(f)]; }
constexpr const char *format_name(Format f) { return row_of(f).name; }

}  // namespace cryolite
