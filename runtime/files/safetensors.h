#pragma once
// Weights and optimizer state on disk: https://huggingface.co/docs/safetensors. A file is
//   8 bytes N (little endian) | N bytes of JSON {name: {dtype, shape, data_offsets}} | the tensors.
// The reader trusts nothing: a file that breaks any rule of the format is refused with the tensor's
// name, what was found and what was expected.

#include "runtime/io/files.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cryolite {

enum class Dtype { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

size_t size_of(Dtype dtype);                              ///< bytes of one element
std::string_view name_of(Dtype dtype);                    ///< as in the file: "F32", "BF16", ...
std::optional<Dtype> dtype_named(std::string_view name);  ///< nothing when the format has no such name

using TensorShape = std::vector<int64_t>;  ///< outermost extent first, as NumPy and PyTorch write it

/// "[768, 2304]"
std::string shape_text(const TensorShape &shape);

struct TensorSpec {
    std::string name;
    Dtype dtype = Dtype::f32;
    TensorShape shape;  ///< empty: one value

    uint64_t elements() const;
    uint64_t bytes() const { return elements() * size_of(dtype); }
};

struct TensorEntry : TensorSpec {
    uint64_t begin = 0;  ///< in the file
};

class SafetensorsFile {
public:
    /// Reads and checks the whole header: the length, JSON, duplicate names, dtypes, shapes, and
    /// that the tensors cover the rest of the file exactly: no overlap, no hole, nothing past the
    /// end.
    explicit SafetensorsFile(fs::path path);

    /// In the order of their bytes.
    const std::vector<TensorEntry> &entries() const { return entries_; }
    const std::map<std::string, std::string> &metadata() const { return metadata_; }
    const fs::path &path() const { return file_.path(); }

    const TensorEntry *find(std::string_view name) const;
    /// Errors: no such tensor (names the file and how many it has).
    const TensorEntry &at(std::string_view name) const;
    /// As `at`, and the shape must be `expected`. Errors name the tensor, the expected and found
    /// shapes.
    const TensorEntry &at(std::string_view name, const TensorShape &expected) const;

    /// Bytes `from` ... of a tensor; `out` ends within it. Errors, also below:
    /// the file has changed since it was opened.
    void read(const TensorEntry &entry, uint64_t from, std::span<std::byte> out) const;
    /// The tensor's values from F32, F16, BF16 or F64; `out` has as many. Errors: an integer dtype,
    /// a different number of elements.
    void read_float32(const TensorEntry &entry, std::span<float> out) const;
    std::vector<float> read_float32(std::string_view name) const;

private:
    InputFile file_;

    template <typename T, typename Convert>
    void convert(const TensorEntry &entry, std::span<float> out, Convert to_float) const;
    std::vector<TensorEntry> entries_;
    std::map<std::string, size_t, std::less<>> index_;
    std::map<std::string, std::string> metadata_;
};

/// Writes the header first and then tensor after tensor, so that it needs no copy of the file in memory. A file that
/// was not finished is removed.
class SafetensorsWriter {
public:
    SafetensorsWriter(const fs::path &path, std::vector<TensorSpec> tensors,
                      const std::map<std::string, std::string> &metadata = {});

    /// The next bytes of tensor `name`, whole or in pieces; tensors come in the order of the list.
    void write(std::string_view name, Bytes bytes);
    template <typename T> void write(std::string_view name, std::span<const T> values) {
        write(name, std::as_bytes(values));
    }

    /// Checks that every tensor is whole, syncs and closes. Returns the SHA-256 of the file.
    std::string finish();

private:
    void put(Bytes bytes);
    void skip_finished();

    std::vector<TensorSpec> tensors_;
    size_t current_ = 0;
    uint64_t filled_ = 0;  ///< bytes of the current tensor
    Sha256 digest_;
    FileWriter file_;
};

/// IEEE half and bfloat16 bit patterns as float; exact.
float float_from_half(uint16_t bits);
float float_from_bfloat16(uint16_t bits);
/// The nearest IEEE half, ties to even; infinite from 65520 on.
uint16_t half_from_float(float value);

}  // namespace cryolite
