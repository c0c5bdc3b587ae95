#pragma once
// The table of the dialects. Each has a line in table.cpp, a line in names.h and an include here.

#include "dialects/cublaslt/can.h"
#include "dialects/onednn/can.h"
#include "dialects/product.h"

namespace cryolite {

/// What the compiler has to know of a dialect: its device, and the products that it can compute.
struct DialectLine {
    std::string name;
    std::string device;                                ///< that computes its products
    std::string package;                               ///< to install where the build has not found the library
    std::string (*why_not)(const Product &p);          ///< why it cannot compute a product; empty: it can
    int64_t (*workspace)(const Product &p) = nullptr;  ///< bytes of the arena that a product takes; null: none
};

/// All dialects except Halide's own kernels, which are always there.
const std::vector<DialectLine> &dialect_table();
/// The dialect of this name; null: there is none.
const DialectLine *find_dialect(const std::string &name);
/// "halide or cublaslt or onednn"
std::string dialect_names();

}  // namespace cryolite
