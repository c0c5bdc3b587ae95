#include "runtime/files/safetensors.h"
#include "tests/runtime/scratch.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>

namespace cryolite::test {

namespace {

/// A file with this header, its true length in front and `data` zero bytes behind.
std::string file_of(std::string_view header, size_t data = 0) {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes.append(header).append(data, '\0');
}

std::string length_only(uint64_t length) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes;
}

template <typename T> std::string raw(std::initializer_list<T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.begin(), bytes.size());
    return bytes;
}

}  // namespace

TEST_CASE("safetensors: hostile files are refused by name") {
    const struct {
        std::string mistake;
        std::string bytes;
        const char *message;
    } cases[] = {
        {"empty", "", "not a safetensors file: 0 bytes, at least 8 expected"},
        {"short", "abc", "3 bytes, at least 8 expected"},
        {"huge length", length_only(~0ull), "it does not begin with the length of a header, 100000000 at most"},
        {"length past the end", length_only(100) + "{}", "truncated: its header has 100 bytes, but only 2"},
        {"empty header", file_of(""), "does not begin with {"},
        {"space first", file_of(" {}"), "does not begin with {"},
        {"a pickle", "PK\x03\x04 some zip file", "it does not begin with the length of a header"},
        {"not JSON", file_of(R"({"a":)"), "not valid JSON at byte"},
        {"text after JSON", file_of("{} x"), "not valid JSON"},
        {"zero byte padding", file_of(std::string("{}\0\0", 4)), "not valid JSON"},
        {"not UTF-8", file_of("{\"\xff\":1}"), "not valid JSON"},
        {"a number too large", file_of(R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}})", 4), "header"},
        {"deep", file_of("{\"a\":" + std::string(100000, '[')), "nested deeper than the format allows"},
        {"deep objects", file_of(R"({"a":{"b":{"c":{"d":{"e":{"f":1}}}}}})"), "nested deeper"},
        {"duplicate tensor",
         file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8",)"
                 R"("shape":[1],"data_offsets":[0,1]}})",
                 1),
         "the name \"a\" appears twice"},
        {"duplicate key", file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
         "the name \"dtype\" appears twice"},
        {"duplicate by escape",
         file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                 1),
         "the name \"a\" appears twice"},
        {"entry is a number", file_of(R"({"a":1})"), "tensor \"a\": expected an object with exactly"},
        {"missing key", file_of(R"({"a":{"dtype":"F32","shape":[]}})"), "expected an object with exactly"},
        {"extra key", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1), "exactly"},
        {"dtype no string", file_of(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1),
         "dtype is not a string"},
        {"unknown dtype", file_of(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4),
         "unknown dtype \"F31\""},
        {"shape no list", file_of(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1), "shape is not a list"},
        {"negative extent", file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
         "shape \"[-1]\" has an extent"},
        {"fraction", file_of(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1),
         "has an extent that is not a whole"},
        {"extent over 63 bits",
         file_of(R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1), "has an extent"},
        {"product overflows", file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
         "shape [4294967296, 4294967296] has more bytes than can be counted"},
        {"times size overflows", file_of(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})"),
         "more bytes than can be counted"},
        {"one offset", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1),
         "are not two whole numbers"},
        {"negative offset", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 1),
         "are not two whole numbers"},
        {"backwards", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1), "end before they begin"},
        {"past the end", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
         "data_offsets [0, 8] go past the end: 4 bytes of tensors are there"},
        {"offset near 2^64",
         file_of(R"({"a":{"dtype":"U8","shape":[1],)"
                 R"("data_offsets":[18446744073709551614,18446744073709551615]}})",
                 1),
         "go past the end"},
        {"wrong size", file_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20),
         "hold 20 bytes, but F32 [2, 3] needs 24"},
        {"overlap",
         file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8",)"
                 R"("shape":[4],"data_offsets":[2,6]}})",
                 6),
         "tensors \"a\" and \"b\" overlap: \"b\" begins at byte 2, before 4"},
        {"hole",
         file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8",)"
                 R"("shape":[1],"data_offsets":[2,3]}})",
                 3),
         "bytes 1 to 2 before tensor \"b\" belong to no tensor"},
        {"hole in front", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2), "bytes 0 to 1"},
        {"bytes behind", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 4),
         "the last 3 bytes belong to no tensor"},
        {"metadata no object", file_of(R"({"__metadata__":[]})"), "__metadata__ is not an object of strings"},
        {"metadata no strings", file_of(R"({"__metadata__":{"step":3}})"), "the value of \"step\" is not a string"},
        {"a name with control bytes", file_of(R"({"\u001b[2J":1})"), "tensor \"\\x1b[2J\""},
    };
    Scratch scratch;
    for (const auto &c : cases) {
        CAPTURE(c.mistake);
        const fs::path path = write_plainly(scratch / "x.safetensors", c.bytes);
        CHECK_ERROR(SafetensorsFile{path}, c.message);
        CHECK_ERROR(SafetensorsFile{path}, "x.safetensors: ");
        CHECK_ERROR(SafetensorsFile{path}, c.mistake == "unknown dtype"
                                               ? ": convert the tensor"
                                               : "; name another file, or copy or download it again");
    }
}

TEST_CASE("safetensors: damage anywhere in a header is refused or harmless") {
    const std::string good =
        file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
    Scratch scratch;
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        std::string bytes = good;
        for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        if (random() % 4 == 0) bytes.resize(random() % bytes.size());
        const fs::path path = write_plainly(scratch / "x", bytes);
        const std::string message = error_of([&] { SafetensorsFile{path}; });
        if (!message.empty()) CHECK(contains(message, "x: "));
    }
}

TEST_CASE("safetensors: what is written is read back") {
    Scratch scratch;
    const fs::path path = scratch / "model.safetensors";
    std::vector<float> weights(6);
    std::iota(weights.begin(), weights.end(), 0.5f);
    const std::vector<int64_t> position = {1234567890123};
    SafetensorsWriter writer(
        path, {{"h.0.w", Dtype::f32, {2, 3}}, {"nothing", Dtype::f32, {0, 5}}, {"position", Dtype::i64, {}}},
        {{"format", "pt"}});
    writer.write("h.0.w", std::span<const float>(weights).first(2));
    writer.write("h.0.w", std::span<const float>(weights).subspan(2));
    CHECK_ERROR(writer.finish(), "tensor \"position\" has 0 of 8 bytes");
    CHECK_ERROR(writer.write("h.0.w", as_bytes("x")), "\"position\" is next (0 of 8 bytes written)");
    CHECK_ERROR(writer.write("position", as_bytes("123456789")), "1 bytes too many for tensor \"position\"");
    writer.write("position", std::span<const int64_t>(position));
    CHECK_ERROR(writer.write("more", as_bytes("x")), "every tensor is complete");
    CHECK(writer.finish() == sha256_file(path));

    const SafetensorsFile file(path);
    REQUIRE(file.entries().size() == 3);
    CHECK(file.metadata().at("format") == "pt");
    CHECK(file.at("h.0.w").shape == TensorShape{2, 3});
    CHECK(file.at("nothing").elements() == 0);
    CHECK(file.at("position").elements() == 1);
    CHECK(file.read_float32("h.0.w") == weights);
    CHECK(file.read_float32("nothing").empty());
    CHECK(file.at("h.0.w").begin % 8 == 0);
    int64_t read = 0;
    file.read(file.at("position"), 0, std::as_writable_bytes(std::span(&read, 1)));
    CHECK(read == position[0]);
    CHECK_ERROR(file.at("h.1.w"), "model.safetensors: no tensor \"h.1.w\" among its 3");
    CHECK_ERROR(file.at("h.0.w", {3, 2}), "tensor \"h.0.w\" has shape [2, 3], expected [3, 2]");
    CHECK_ERROR(file.read_float32("position"), "has dtype I64, expected a float one");
    std::vector<float> wrong(5);
    CHECK_ERROR(file.read_float32(file.at("h.0.w"), wrong), "has 6 values, expected 5");
}

TEST_CASE("safetensors: a file that is cut short or written to while it is open is named") {
    Scratch scratch;
    const fs::path path = scratch / "model.safetensors";
    for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
        const std::vector<std::byte> bytes(200'000 * size_of(dtype));
        auto written = [&] {
            SafetensorsWriter writer(path, {{"w", dtype, {200'000}}});
            writer.write("w", bytes);
            writer.finish();
        };
        written();
        const SafetensorsFile cut(path);
        CHECK(cut.read_float32("w").size() == 200'000);
        fs::resize_file(path, 100'000);
        CHECK_ERROR(cut.read_float32("w"), "model.safetensors: it had");
        CHECK_ERROR(cut.read_float32("w"), "now: it was cut short while it was in use");
        written();
        const SafetensorsFile changed(path);
        fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
        CHECK_ERROR(changed.read_float32("w"), "model.safetensors: it was written to while it was in use");
    }
}

TEST_CASE("safetensors: reading and writing take time in proportion to the number of tensors") {
    Scratch scratch;
    const auto seconds = [&](size_t tensors) {
        std::vector<TensorSpec> list;
        for (size_t t = 0; t < tensors; ++t) list.push_back({fmt::format("h.{}.w", t), Dtype::f32, {0, 3}});
        const std::clock_t start = std::clock();
        SafetensorsWriter(scratch / "many", list).finish();
        const SafetensorsFile file(scratch / "many");
        const double passed = double(std::clock() - start) / CLOCKS_PER_SEC;
        CHECK(file.entries().size() == tensors);
        CHECK(file.find(list.back().name));
        return passed;
    };
    const double few = seconds(10'000), many = seconds(40'000);
    MESSAGE("10,000 tensors: ", few, " s; 40,000: ", many, " s of processor time");
#if !defined(__SANITIZE_ADDRESS__)
    CHECK(many < 1);
#endif
    CHECK(many < 10 * few + 0.1);
}

TEST_CASE("safetensors: a writer refuses bad lists and leaves nothing half written") {
    Scratch scratch;
    const fs::path path = scratch / "x";
    CHECK_ERROR((SafetensorsWriter(path, {{"a", Dtype::f32, {1}}, {"a", Dtype::f32, {1}}})), "used twice");
    CHECK_ERROR((SafetensorsWriter(path, {{"__metadata__", Dtype::f32, {1}}})), "reserved");
    CHECK_ERROR((SafetensorsWriter(path, {{"a", Dtype::f32, {-1}}})), "shape [-1]");
    CHECK_ERROR((SafetensorsWriter(path, {{"\xff", Dtype::f32, {1}}})), "cannot write");
    { SafetensorsWriter(path, {{"a", Dtype::f32, {1}}}); }
    CHECK_FALSE(fs::exists(path));
    SafetensorsWriter nothing(path, {});
    nothing.finish();
    CHECK(SafetensorsFile(path).entries().empty());
}

TEST_CASE("safetensors: every float type becomes float32") {
    constexpr float inf = std::numeric_limits<float>::infinity();
    Scratch scratch;
    const auto values = [&](std::string_view dtype, size_t count, const std::string &bytes) {
        const std::string header =
            fmt::format(R"({{"a":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype, count, bytes.size());
        return SafetensorsFile(write_plainly(scratch / "x", file_of(header) + bytes)).read_float32("a");
    };
    CHECK(values("F64", 3, raw<double>({1.5, -1e300, 0.1})) == std::vector<float>{1.5f, -inf, 0.1f});
    CHECK(values("BF16", 3, raw<uint16_t>({0x3f80, 0xc049, 0xff80})) == std::vector<float>{1, -3.140625f, -inf});
    CHECK(values("F16", 6, raw<uint16_t>({0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00})) ==
          std::vector<float>{1, -2, 0x1p-24f, -1023 * 0x1p-24f, 65504, inf});
    CHECK(std::isnan(values("F16", 1, raw<uint16_t>({0x7e00}))[0]));
    CHECK(std::isnan(values("BF16", 1, raw<uint16_t>({0x7fc0}))[0]));
}

}  // namespace cryolite::test
