// The values of a safetensors file: conversion to float, and the writer.

#include "runtime/files/safetensors.h"

#include "runtime/io/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

namespace cryolite {

namespace {

std::string header_text(const std::vector<TensorSpec> &tensors, const std::map<std::string, std::string> &metadata) {
    // Text, not an ordered JSON object, which searches all of its names for each new one.
    std::vector<std::string> members;
    if (!metadata.empty()) members.push_back("\"__metadata__\":" + nlohmann::json(metadata).dump());
    std::unordered_set<std::string_view> names;
    uint64_t offset = 0;
    for (const TensorSpec &t : tensors) {
        if (t.name.empty() || t.name == "__metadata__" || !names.insert(t.name).second)
            fail("cannot write safetensors: the name {} is empty, reserved or used twice", shown(t.name));
        for (int64_t extent : t.shape)
            if (extent < 0) fail("cannot write tensor {}: shape {}", shown(t.name), shape_text(t.shape));
        members.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                      nlohmann::json(t.name).dump(), name_of(t.dtype), fmt::join(t.shape, ","), offset,
                                      offset + t.bytes()));
        offset += t.bytes();
    }
    std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
    text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the first tensor is aligned
    return text;
}

uint64_t total_bytes(const std::vector<TensorSpec> &tensors) {
    uint64_t total = 0;
    for (const TensorSpec &t : tensors) total += t.bytes();
    return total;
}

}  // namespace

float float_from_bfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float float_from_half(uint16_t bits) {
    const uint32_t sign = uint32_t{bits} >> 15 << 31;
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float value = static_cast<float>(fraction) * 0x1p-24f;  // subnormal or zero
    return sign ? -value : value;
}

uint16_t half_from_float(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
    const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
    if (size > 0x7f800000u) return sign | 0x7e00u;  // NaN
    if (size >= 0x477ff000u) return sign | 0x7c00u;
    if (size >= 0x38800000u)
        return sign | static_cast<uint16_t>((size + 0xfffu + (size >> 13 & 1) - 0x38000000u) >> 13);
    // A subnormal: adding 0.5, whose last place is 2^-24, rounds it.
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) -
                                        std::bit_cast<uint32_t>(0.5f));
}

void SafetensorsFile::read(const TensorEntry &entry, uint64_t from, std::span<std::byte> out) const {
    file_.read(entry.begin + from, out);
    file_.check_unchanged();  // after reading, so that a change before it is seen
}

/// Block by block, so that a tensor needs no second copy.
template <typename T, typename Convert>
void SafetensorsFile::convert(const TensorEntry &entry, std::span<float> out, Convert to_float) const {
    std::vector<T> block(std::min<size_t>(out.size(), 1 << 16));
    for (size_t begin = 0; begin < out.size(); begin += block.size()) {
        const auto some = std::span(block).first(std::min(block.size(), out.size() - begin));
        read(entry, begin * sizeof(T), std::as_writable_bytes(some));
        std::ranges::transform(some, out.begin() + std::ptrdiff_t(begin), to_float);
    }
}

void SafetensorsFile::read_float32(const TensorEntry &entry, std::span<float> out) const {
    if (out.size() != entry.elements())
        fail("{}: tensor {} has {} values, expected {}", path().string(), shown(entry.name), entry.elements(),
             out.size());
    switch (entry.dtype) {
    case Dtype::f32:
        return read(entry, 0, std::as_writable_bytes(out));
    case Dtype::f64:
        return convert<double>(entry, out, [](double v) { return static_cast<float>(v); });
    case Dtype::f16:
        return convert<uint16_t>(entry, out, float_from_half);
    case Dtype::bf16:
        return convert<uint16_t>(entry, out, float_from_bfloat16);
    default:
        fail("{}: tensor {} has dtype {}, expected a float one: F32, F16, BF16 or F64", path().string(),
             shown(entry.name), name_of(entry.dtype));
    }
}

std::vector<float> SafetensorsFile::read_float32(std::string_view name) const {
    const TensorEntry &entry = at(name);
    std::vector<float> values(entry.elements());
    read_float32(entry, values);
    return values;
}

SafetensorsWriter::SafetensorsWriter(const fs::path &path, std::vector<TensorSpec> tensors,
                                     const std::map<std::string, std::string> &metadata)
    : tensors_(std::move(tensors)), file_(path, {.expected = total_bytes(tensors_)}) {
    std::string header;
    try {
        header = header_text(tensors_, metadata);
    } catch (const nlohmann::json::exception &e) {  // a name that is not UTF-8
        fail("cannot write {}: {}", path.string(), e.what());
    }
    const uint64_t length = header.size();
    put(std::as_bytes(std::span(&length, 1)));
    put(as_bytes(header));
    skip_finished();
}

void SafetensorsWriter::put(Bytes bytes) {
    digest_.update(bytes);
    file_.write(bytes);
}

void SafetensorsWriter::skip_finished() {
    while (current_ < tensors_.size() && filled_ == tensors_[current_].bytes()) {
        ++current_;
        filled_ = 0;
    }
}

void SafetensorsWriter::write(std::string_view name, Bytes bytes) {
    if (bytes.empty()) return;
    if (current_ == tensors_.size())
        fail("{}: {} bytes for tensor {}, but every tensor is complete", file_.path().string(), bytes.size(),
             shown(name));
    const TensorSpec &tensor = tensors_[current_];
    if (tensor.name != name)
        fail("{}: bytes for tensor {}, but {} is next ({} of {} bytes written)", file_.path().string(), shown(name),
             shown(tensor.name), filled_, tensor.bytes());
    if (bytes.size() > tensor.bytes() - filled_)
        fail("{}: {} bytes too many for tensor {} of shape {}", file_.path().string(),
             bytes.size() - (tensor.bytes() - filled_), shown(name), shape_text(tensor.shape));
    put(bytes);
    filled_ += bytes.size();
    skip_finished();
}

std::string SafetensorsWriter::finish() {
    if (current_ < tensors_.size())
        fail("{}: tensor {} has {} of {} bytes", file_.path().string(), shown(tensors_[current_].name), filled_,
             tensors_[current_].bytes());
    file_.finish();
    return digest_.hex();
}

}  // namespace cryolite
