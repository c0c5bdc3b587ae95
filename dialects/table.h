#pragma once
// The dialects: a line of table.cpp and of names.h, and an include here for each.

#include "dialects/cublaslt/can.h"
#include "dialects/onednn/can.h"
#include "dialects/product.h"

namespace cryolite {

/// What the compiler has to know of a dialect: what it can do.
struct DialectLine {
    std::string name;
    std::string device;                                ///< that its products are computed on
    std::string package;                               ///< what to install where the build has not found it
    std::string (*why_not)(const Product &p);          ///< why it cannot compute a product; empty: it can
    int64_t (*workspace)(const Product &p) = nullptr;  ///< bytes that it takes of the arena for it; null: none
};

/// All of them; the one implementation that is always there, Halide's, has no line.
const std::vector<DialectLine> &dialect_table();
/// Null: there is none of this name.
const DialectLine *find_dialect(const std::string &name);
/// "halide or cublaslt or onednn"
std::string dialect_names();

}  // namespace cryolite
