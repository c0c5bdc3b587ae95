#pragma once
// A matrix product or a convolution of a step as plain data, which describes it to a dialect. The compiler decides it,
// the plan holds it and the runtime runs it.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cryolite {

/// Over rows r, with W(o, i) of `out` x `in`:
///   forward      y(o, r)  = sum_i W(o, i) x(i, r)
///   d_input      dx(i, r) = sum_o W(o, i) dy(o, r)
///   d_parameter  dW(o, i) = sum_r dy(o, r) x(i, r), added to what is there where `accumulate`
/// and then, element by element, the epilogue `then`. With a window it is a convolution: a row of y is a place, and its
/// sum runs over `size` x `size` places of x as well (`Window` has the formula).
struct Product {
    enum Form { forward, d_input, d_parameter };
    /// A step of the epilogue: bias (+ b(o), in forward alone), add (+ another array), relu, gelu_tanh or gelu_erf.
    /// With "d_" before a function's name the step multiplies by the function's derivative at the array that it reads.
    struct Then {
        std::string op;
        int reads = -1;   ///< argument that the step reads; -1: none
        int stores = -1;  ///< argument that gets the step's result; -1: none
        bool operator==(const Then &) const = default;
    };

    /// Of a convolution: y(o, u, v, n) = sum W(o, c, kx, ky) x(c', s u + d kx - p, s v + d ky - p, n), with stride s,
    /// dilation d and zero padding p, on images with their channels innermost. Channels are cut into groups: o reads
    /// one group of x's channels, c is the channel's number within that group, and c' its number in x.
    struct Window {
        int images = 0, width = 0, height = 0;  ///< of x
        int size = 1, stride = 1, padding = 0, dilation = 1, groups = 1;
        /// The extent of y where the extent of x is `extent`.
        int64_t places(int extent) const {
            return (extent + int64_t(2) * padding - int64_t(dilation) * (size - 1) - 1) / stride + 1;
        }
        bool operator==(const Window &) const = default;
    };

    Form form = forward;
    /// The type of the factors. tfloat32: they are stored as float32, and 10 bits of their fractions are multiplied.
    std::string type = "float32";
    std::string result = "float32";  ///< type of the arrays that are stored and that the epilogue reads
    int rows = 0, in = 0, out = 0;   ///< of a convolution: places of y in all images, channels of x, channels of y
    std::optional<Window> window = {};
    int panel = 0;  ///< width of the panels of `out` that W and dW are stored in; 0: row-major, `out` innermost
    bool inputs_innermost = false;  ///< W and dW are row-major with `in` innermost, as tables of embeddings are
    bool accumulate = false;
    int weight = -1, x = -1, dy = -1;  ///< arguments; -1 where the form does not read one
    int stores = -1;                   ///< argument that gets the product before the epilogue; -1: none
    int bias_gradient = -1;            ///< of d_parameter: argument that gets sum_r dy(o, r)
    std::vector<Then> then = {};

    /// Floating-point operations, two for each multiply-add.
    double flops() const {
        const double of_row = 2.0 * in * out;
        return rows * (window ? of_row * window->size * window->size / window->groups : of_row);
    }
    /// The argument that stores the value after `then[step]` (step -1: the product before the epilogue). Where that
    /// value is not stored, the argument that stores the next value which is.
    int place(int step) const {
        if (step < 0 && stores >= 0) return stores;
        for (size_t i = step < 0 ? 0 : size_t(step); i < then.size(); i++)
            if (then[i].stores >= 0) return then[i].stores;
        return -1;
    }
    struct Argument {
        std::string type;
        int64_t elements;
        bool written;
    };
    /// Throws where this is no valid product of arguments of these types, sizes and directions.
    void check(std::span<const Argument> arguments) const;
    bool operator==(const Product &) const = default;
};

void to_json(nlohmann::json &j, const Product &p);
void from_json(const nlohmann::json &j, Product &p);

/// All names that `Product::Then::op` may have.
extern const std::vector<std::string> epilogue_ops;

}  // namespace cryolite
