#pragma once
// Runs layers in float64 in this process: the arrays that they read, and a simple loop schedule.

#include <algorithm>

#include "dsl/layer.h"

namespace cryolite::compiler {

/// An array that the layer reads, with the memory behind it.
struct SourceArray {
    std::string name;      ///< "x0", "weight"
    std::string gradient;  ///< the layer's name for its gradient
    Array array;
    Halide::ImageParam image;
    std::vector<double> floats;
    std::vector<int32_t> ints;
    bool constant = false;  ///< the layer takes no gradient of it

    SourceArray(const std::string &name, const std::string &symbol, Halide::Type type, const Shape &shape)
        : name(name), image(type, shape.rank()) {
        Func f(symbol);
        f(Halide::_) = image(Halide::_);
        array = Array(f, shape);
        gradient = "d_" + f.name();
        if (type.is_float())
            floats.resize(size_t(shape.size()));
        else
            ints.resize(size_t(shape.size()));
        attach();
    }
    /// Points the image at the memory. To be called again after `floats` or `ints` gets other memory.
    void attach() {
        const std::vector<int> &e = array.shape.extents();
        if (floats.empty())
            image.set(Halide::Buffer<>(Halide::Buffer<int32_t>(ints.data(), e)));
        else
            image.set(Halide::Buffer<>(Halide::Buffer<double>(floats.data(), e)));
    }
};

/// A layer's result in float64. Where a layer reads ids alone, its inputs do not tell it that type: its result is cast.
template <typename List> Func of_ids_in_float64(const Func &f, const List &inputs, bool has_parameters) {
    const bool of_ids = std::ranges::all_of(inputs, [](const SourceArray &s) { return s.floats.empty(); });
    if (!of_ids || has_parameters || !f.defined() || f.type() != Halide::Float(32)) return f;
    Func g("in_float64");
    g(Halide::_) = cast<double>(f(Halide::_));
    return g;
}

/// Computes every sum, and every Func without dimensions, at root. All other Funcs are inlined.
inline void sums_at_root(const std::vector<Func> &outputs) {
    std::map<std::string, Halide::Internal::Function> all;
    for (const Func &f : outputs) all.merge(Halide::Internal::find_transitive_calls(f.function()));
    for (auto &[name, f] : all)
        if (f.has_update_definition() || f.dimensions() == 0) Func(f).compute_root();
}

}  // namespace cryolite::compiler
