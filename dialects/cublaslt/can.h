#pragma once

#include <algorithm>

#include "dialects/product.h"

namespace cryolite::of_cublaslt {

/// The epilogue of a product as one call of cuBLASLt computes it. The numbers are indices of arguments; -1: none.
struct Epilogue {
    int bias = -1, add = -1;
    int argument = -1;     ///< GELU's argument: gelu_tanh stores it, d_gelu_tanh reads it
    std::string function;  ///< relu, gelu_tanh, d_gelu_tanh; empty: none
    int result = -1;
};

/// Translates the epilogue of a product into `e`. Returns why cuBLASLt cannot compute it; empty: it can.
inline std::string read_epilogue(const Product &p, Epilogue &e) {
    int stored = p.stores;  // the argument that gets the value so far; -1: none
    for (const Product::Then &t : p.then) {
        const bool gelu = t.op == "gelu_tanh", function = gelu || t.op == "relu" || t.op == "d_gelu_tanh";
        if (!e.function.empty())
            return "cublaslt can compute nothing after '" + e.function + "', and '" + t.op + "' follows";
        if (t.op == "bias")
            e.bias = t.reads;
        else if (t.op == "add" && e.add < 0)
            e.add = t.reads;
        else if (t.op == "add")
            return "cublaslt adds one array to a product, and this one adds several";
        else if (function)
            e.function = t.op;
        else
            return "cublaslt has no '" + t.op + "'";
        if (stored >= 0 && !gelu) return "cublaslt stores no value before its '" + t.op + "'";
        if (gelu) e.argument = stored;
        if (t.op == "d_gelu_tanh" && e.bias >= 0) return "cublaslt has no slope of GELU after a bias";
        if (t.op == "d_gelu_tanh") e.argument = t.reads;
        stored = t.stores;
    }
    e.result = stored;
    return "";
}

/// Of an element of an array of this type.
inline int bytes_of(const std::string &type) { return type == "float16" || type == "bfloat16" ? 2 : 4; }

/// Why cuBLASLt cannot compute a product; empty: it can. It takes all forms, with weights row-major or in panels, and
/// the epilogues that its documentation lists.
inline std::string why_not(const Product &p) {
    if (p.window) return "cublaslt has no convolutions";
    const bool half = p.type == "float16" || p.type == "bfloat16";
    if (!half && p.type != "float32" && p.type != "tfloat32") return "cublaslt has no products of " + p.type;
    if (p.result != "float32" && !(half && p.result == p.type))
        return "cublaslt has no products of " + p.type + " with results of " + p.result;
    Epilogue e;
    if (std::string why = read_epilogue(p, e); !why.empty()) return why;
    const int columns = p.form == Product::d_input ? p.in : p.out;
    const int step = p.form == Product::forward && p.panel ? p.panel : 8;
    if (e.argument >= 0 && (columns % 8 != 0 || step % 8 != 0))
        return "cublaslt keeps GELU's argument in rows of a multiple of 8 elements, and they have " +
               std::to_string(columns % 8 ? columns : step);
    if (p.form == Product::d_input && p.panel && p.out > p.panel && p.result != "float32")
        return "cublaslt would round the sum over each panel to " + p.result;
    if (p.inputs_innermost && p.bias_gradient >= 0)
        return "cublaslt makes the gradient of a bias beside rows of outputs, and these are of inputs";
    if (p.accumulate && p.bias_gradient >= 0) return "cublaslt does not add to the gradient of a bias";
    return "";
}

constexpr int64_t workspace_alignment = 256;  ///< as cuBLASLt asks for

constexpr int row_alignment = 16;  ///< bytes at which tensor cores read

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// Bytes of an element of y, or of dy.
inline int bytes_of_scores(const Product &p) { return bytes_of(p.form == Product::forward ? p.result : p.type); }

/// The elements of y, and of the factors, that tensor cores read together.
inline int group_of(const Product &p) { return row_alignment / std::min(bytes_of_scores(p), bytes_of(p.type)); }

/// The elements between the rows of a copy of y or dy, which begin at multiples of 16 bytes; 0: the product takes them
/// where they are. Tensor cores multiply rows that begin anywhere, as those of 50257 scores do, at a fifth of the
/// speed. A copy pays for sums long enough.
inline int64_t aligned_stride(const Product &p) {
    constexpr int enough = 256;  // terms, or sums, of each copied element
    Epilogue e;
    const bool alone =
        p.then.empty() || (p.form == Product::forward && read_epilogue(p, e).empty() && e.add < 0 && e.argument < 0);
    if (!p.inputs_innermost || p.type == "float32" || p.in < enough || p.rows < enough || !alone) return 0;
    const int group = group_of(p);
    if (p.out % group == 0 || p.out < group || p.in % group != 0) return 0;
    return round_up(p.out, row_alignment / bytes_of_scores(p));
}

/// Bytes of the copy, a multiple of the workspace's alignment.
inline int64_t aligned_bytes(const Product &p) {
    return round_up(p.rows * aligned_stride(p) * bytes_of_scores(p), workspace_alignment);
}

/// Bytes of scratch memory: for the copy of y or dy, for the partial sums of a reduction that is cut into up to 16
/// parts, for their counters, and for rounding the address up to the alignment.
inline int64_t workspace(const Product &p) {
    constexpr int64_t most = int64_t(32) << 20, counters = 64 << 10;
    const int64_t result = p.form == Product::forward   ? int64_t(p.rows) * p.out
                           : p.form == Product::d_input ? int64_t(p.rows) * p.in
                                                        : int64_t(p.in) * p.out;
    return std::min(most, 16 * 4 * result + counters) + aligned_bytes(p) + workspace_alignment;
}

}  // namespace cryolite::of_cublaslt
