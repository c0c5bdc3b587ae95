#pragma once
// A matrix product or a convolution of a step as a dialect is told of it: plain data, which the compiler decides, the
// plan holds and the runtime runs. It is all that the two halves share beside the plan.

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
/// and then, element by element, what the kernel does with the result before it stores it. With a window, the same sums
/// of a convolution: over its places, of which every row of y has `size` x `size` in x.
struct Product {
    enum Form { forward, d_input, d_parameter };
    /// bias (of forward: + b(o)), add (+ another array), relu, gelu_tanh, gelu_erf; with "d_" before it, times the
    /// slope at the array that it reads.
    struct Then {
        std::string op;
        int reads = -1;   ///< argument, -1: none
        int stores = -1;  ///< argument that holds what comes out, -1: nothing does
        bool operator==(const Then &) const = default;
    };

    /// Of a convolution: y(o, u, v, n) = sum W(o, c, kx, ky) x(c', s u + d kx - p, s v + d ky - p, n), with stride s,
    /// dilation d and zero padding p, on images with their channels innermost. Channels are cut into groups: c counts
    /// within the group of x that the group of o sees, c' in all.
    struct Window {
        int images = 0, width = 0, height = 0;  ///< of x
        int size = 1, stride = 1, padding = 0, dilation = 1, groups = 1;
        /// Extent of y where that of x is this one.
        int64_t places(int extent) const {
            return (extent + int64_t(2) * padding - int64_t(dilation) * (size - 1) - 1) / stride + 1;
        }
        bool operator==(const Window &) const = default;
    };

    Form form = forward;
    /// Of the factors; tfloat32: they are float32, and are multiplied with 10 bits of their fractions.
    std::string type = "float32";
    std::string result = "float32";  ///< of what is stored, and of what epilogues read
    int rows = 0, in = 0, out = 0;   ///< of a convolution: places of y in all images, channels
    std::optional<Window> window = {};
    int panel = 0;  ///< width of the panels of `out` that W and dW are stored in; 0: row-major, `out` innermost
    bool inputs_innermost = false;  ///< W and dW are row-major with `in` innermost, as tables of embeddings are
    bool accumulate = false;
    int weight = -1, x = -1, dy = -1;  ///< arguments; those that the form reads
    int stores = -1;                   ///< argument that holds the product itself; -1: only what comes after it
    int bias_gradient = -1;            ///< of d_parameter: argument that gets sum_r dy(o, r)
    std::vector<Then> then = {};

    /// Multiply-adds, twice.
    double flops() const {
        const double of_row = 2.0 * in * out;
        return rows * (window ? of_row * window->size * window->size / window->groups : of_row);
    }
    /// The argument that holds the value after `then[step]` (-1: the product), or a later one where nothing does.
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
    /// Throws where it is no product of these arguments.
    void check(std::span<const Argument> arguments) const;
    bool operator==(const Product &) const = default;
};

void to_json(nlohmann::json &j, const Product &p);
void from_json(const nlohmann::json &j, Product &p);

/// What may stand in a kernel's loops beside a product.
extern const std::vector<std::string> epilogue_ops;

}  // namespace cryolite
