#pragma once

#include <HalideRuntime.h>

#include <string>

namespace cryolite {

/// The type that a plan calls "float32" or "uint16".
inline halide_type_t halide_type_named(const std::string &name) {
    const size_t digits = name.find_first_of("0123456789");
    const std::string kind = name.substr(0, digits);
    const auto code = kind == "float"    ? halide_type_float
                      : kind == "bfloat" ? halide_type_bfloat
                      : kind == "int"    ? halide_type_int
                                         : halide_type_uint;
    return halide_type_t(code, uint8_t(std::stoi(name.substr(digits))));
}

}  // namespace cryolite
