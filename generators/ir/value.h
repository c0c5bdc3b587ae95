#pragma once
// The arrays of a step: activations, parameters and gradients, and the other state of training.

#include <cstdint>
#include <string>

#include "bundle/role.h"
#include "dsl/shape.h"
#include "generators/ir/ids.h"
#include "schedules/layout.h"

namespace cryolite::ir {

/// The type of an array's elements.
struct DataType {
    enum Kind { integer, natural, floating, bfloat } kind = floating;
    int bits = 32;

    int bytes() const { return bits / 8; }
    /// "float32", "bfloat16", "int32", "uint16"
    std::string str() const;
    bool operator==(const DataType &) const = default;
};
inline constexpr DataType float32{DataType::floating, 32}, float64{DataType::floating, 64},
    bfloat16{DataType::bfloat, 16}, float16{DataType::floating, 16}, int32{DataType::integer, 32},
    uint16{DataType::natural, 16};

/// Whether a value that layers see as a float32 is stored in 16 bits.
inline bool is_narrow(const DataType &t) {
    return t.bits == 16 && (t.kind == DataType::floating || t.kind == DataType::bfloat);
}

using cryolite::Role;

struct Value {
    std::string name;
    Role role;
    DataType type = float32;
    Shape shape;         ///< logical, innermost first
    Layout layout = {};  ///< of parameters, their gradients and state
    ParamId parameter = {};
    CallId producer = {};        ///< of values of the model: the call that makes it; none: an input
    bool stored = true;          ///< false: exists only inside kernels
    int worker = -1;             ///< of a share: whose gradient it is
    int level = -1;              ///< of a partial: it is a gradient's sum over 2^level parts of a batch
    ValueId part_of = {};        ///< the value in whose array this one lies, as a part of it or all of it
    int64_t begin = 0;           ///< elements of that array before this value's
    ValueId remat = {};          ///< the copy that the backward pass computes again and reads instead
    DataType adjoint = float32;  ///< the type of its adjoint
    std::string format_why = {}, adjoint_why = {};  ///< what decided these types; empty: the step is fp32

    Shape storage() const { return layout.storage(shape); }
    int64_t bytes() const { return storage().size() * type.bytes(); }
    /// Whether it outlives an entry, and has another version after each operation that writes it.
    bool is_state() const {
        return role == Role::parameter || role == Role::state || role == Role::master_low || role == Role::gradient ||
               role == Role::count || role == Role::master || role == Role::loss_scaler;
    }
};

/// A version of a value, as an operation reads or writes it. A value that is no state has version 0 alone.
struct Ref {
    ValueId value;
    int version = 0;
    bool operator==(const Ref &) const = default;
};

}  // namespace cryolite::ir
