#include "runtime/files/safetensors.h"

#include "runtime/io/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>

namespace cryolite {

static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

namespace {

using Json = nlohmann::json;

struct DtypeName {
    Dtype dtype;
    std::string_view name;
    size_t size;
};
constexpr std::array<DtypeName, 13> dtypes{{
    {Dtype::f64, "F64", 8},
    {Dtype::f32, "F32", 4},
    {Dtype::f16, "F16", 2},
    {Dtype::bf16, "BF16", 2},
    {Dtype::i64, "I64", 8},
    {Dtype::i32, "I32", 4},
    {Dtype::i16, "I16", 2},
    {Dtype::i8, "I8", 1},
    {Dtype::u64, "U64", 8},
    {Dtype::u32, "U32", 4},
    {Dtype::u16, "U16", 2},
    {Dtype::u8, "U8", 1},
    {Dtype::boolean, "BOOL", 1},
}};

constexpr uint64_t header_limit = 100'000'000;  // the limit of the reference implementation

/// An error about a file whose bytes are not what its format says.
template <typename... Values> [[noreturn]] void damaged(fmt::format_string<Values...> text, Values &&...values) {
    fail("{}; name another file, or copy or download it again", fmt::format(text, std::forward<Values>(values)...));
}

/// The header's text. Errors: the file is too short, or the header's length impossible.
std::string header_of(const InputFile &file) {
    const std::string path = file.path().string();
    if (file.size() < 8) damaged("{}: not a safetensors file: {} bytes, at least 8 expected", path, file.size());
    uint64_t length = 0;
    file.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > header_limit)
        damaged("{}: not a safetensors file: it does not begin with the length of a header, {} at most", path,
                header_limit);
    if (length > file.size() - 8)
        damaged("{}: truncated: its header has {} bytes, but only {} follow", path, length, file.size() - 8);
    std::string text(length, ' ');
    file.read(8, std::as_writable_bytes(std::span(text)));
    if (text.empty() || text[0] != '{') damaged("{}: not a safetensors file: its header does not begin with {{", path);
    return text;
}

/// Refuses what a parsed header no longer shows: a name that appears twice, of which the parser keeps the last, and
/// deeper nesting than a header has. (The parser's callback is slower: it visits all earlier tensors after each.)
class HeaderCheck : public Json::json_sax_t {
public:
    explicit HeaderCheck(const std::string &path) : path_(path) {}

    bool start_object(size_t) override { return names_.emplace_back(), enter(); }
    bool end_object() override { return names_.pop_back(), leave(); }
    bool start_array(size_t) override { return enter(); }
    bool end_array() override { return leave(); }
    bool key(std::string &name) override {
        if (!names_.back().insert(name).second) damaged("{}: header: the name {} appears twice", path_, shown(name));
        return true;
    }
    bool parse_error(size_t byte, const std::string &, const Json::exception &e) override {
        if (dynamic_cast<const Json::out_of_range *>(&e)) damaged("{}: header: {}", path_, e.what());
        damaged("{}: header: not valid JSON at byte {} of the file", path_, 8 + byte);
    }
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(int64_t) override { return true; }
    bool number_unsigned(uint64_t) override { return true; }
    bool number_float(double, const std::string &) override { return true; }
    bool string(std::string &) override { return true; }
    bool binary(Json::binary_t &) override { return true; }

private:
    const std::string &path_;
    std::vector<std::unordered_set<std::string>> names_;  ///< by open object
    int depth_ = 0;

    bool enter() {
        if (++depth_ > 4) damaged("{}: header: nested deeper than the format allows", path_);
        return true;
    }
    bool leave() { return --depth_, true; }
};

Json parse_header(std::string_view text, const std::string &path) {
    // The parser takes a zero byte for the end of its input and would ignore what follows.
    if (const size_t zero = text.find('\0'); zero != text.npos)
        damaged("{}: header: not valid JSON at byte {} of the file", path, 8 + zero);
    HeaderCheck check(path);
    Json::sax_parse(text, &check);
    return Json::parse(text);
}

std::map<std::string, std::string> read_metadata(const Json &value, const std::string &path) {
    std::map<std::string, std::string> metadata;
    if (!value.is_object()) damaged("{}: __metadata__ is not an object of strings", path);
    for (const auto &[key, text] : value.items()) {
        if (!text.is_string()) damaged("{}: __metadata__: the value of {} is not a string", path, shown(key));
        metadata[key] = text.get<std::string>();
    }
    return metadata;
}

/// An entry, and where its bytes begin and end.
struct Placed {
    TensorEntry entry;
    uint64_t begin = 0, end = 0;
};

uint64_t checked_bytes(const TensorSpec &spec, const std::string &where) {
    uint64_t bytes = size_of(spec.dtype);
    for (int64_t extent : spec.shape)
        if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
            damaged("{}: shape {} has more bytes than can be counted", where, shape_text(spec.shape));
    return bytes;
}

Placed read_entry(const std::string &name, const Json &value, const std::string &where) {
    Placed placed;
    placed.entry.name = name;
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
        damaged("{}: expected an object with exactly dtype, shape and data_offsets", where);
    const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    if (!dtype.is_string()) damaged("{}: dtype is not a string", where);
    const auto known = dtype_named(dtype.get<std::string>());
    if (!known)
        fail("{}: unknown dtype {}; this reader knows F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 "
             "U8 BOOL: convert the tensor",
             where, shown(dtype.get<std::string>()));
    placed.entry.dtype = *known;
    if (!shape.is_array()) damaged("{}: shape is not a list", where);
    for (const Json &extent : shape) {
        if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX)
            damaged("{}: shape {} has an extent that is not a whole number from 0 on", where,
                    shown(shape.dump(-1, ' ', true)));
        placed.entry.shape.push_back(extent.get<int64_t>());
    }
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
        damaged("{}: data_offsets {} are not two whole numbers from 0 on", where, shown(offsets.dump(-1, ' ', true)));
    placed.begin = offsets[0].get<uint64_t>();
    placed.end = offsets[1].get<uint64_t>();
    return placed;
}

void check_extent(const Placed &p, uint64_t available, const std::string &where) {
    const uint64_t expected = checked_bytes(p.entry, where);
    if (p.begin > p.end) damaged("{}: data_offsets [{}, {}] end before they begin", where, p.begin, p.end);
    if (p.end > available)
        damaged("{}: data_offsets [{}, {}] go past the end: {} bytes of tensors are there", where, p.begin, p.end,
                available);
    if (p.end - p.begin != expected)
        damaged("{}: data_offsets [{}, {}] hold {} bytes, but {} {} needs {}", where, p.begin, p.end, p.end - p.begin,
                name_of(p.entry.dtype), shape_text(p.entry.shape), expected);
}

/// The tensors, sorted by their bytes, must cover 0 ... available without overlap or hole.
void check_cover(const std::vector<Placed> &placed, uint64_t available, const std::string &path) {
    uint64_t covered = 0;
    const std::string *before = nullptr;
    for (const Placed &p : placed) {
        if (p.begin < covered)
            damaged("{}: tensors {} and {} overlap: {} begins at byte {}, before {}", path, shown(*before),
                    shown(p.entry.name), shown(p.entry.name), p.begin, covered);
        if (p.begin > covered)
            damaged("{}: bytes {} to {} before tensor {} belong to no tensor", path, covered, p.begin,
                    shown(p.entry.name));
        covered = p.end;
        before = &p.entry.name;
    }
    if (covered != available) damaged("{}: the last {} bytes belong to no tensor", path, available - covered);
}

}  // namespace

size_t size_of(Dtype dtype) { return dtypes[static_cast<size_t>(dtype)].size; }
std::string_view name_of(Dtype dtype) { return dtypes[static_cast<size_t>(dtype)].name; }

std::optional<Dtype> dtype_named(std::string_view name) {
    for (const DtypeName &d : dtypes)
        if (d.name == name) return d.dtype;
    return std::nullopt;
}

std::string shape_text(const TensorShape &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

uint64_t TensorSpec::elements() const {
    uint64_t count = 1;
    for (int64_t extent : shape) count *= static_cast<uint64_t>(extent);
    return count;
}

SafetensorsFile::SafetensorsFile(fs::path path) : file_(std::move(path)) {
    const std::string name = file_.path().string();
    const std::string header = header_of(file_);
    const uint64_t start = 8 + header.size(), available = file_.size() - start;
    const Json json = parse_header(header, name);
    std::vector<Placed> placed;
    for (const auto &[key, value] : json.items()) {
        if (key == "__metadata__") {
            metadata_ = read_metadata(value, name);
            continue;
        }
        const std::string where = fmt::format("{}: tensor {}", name, shown(key));
        placed.push_back(read_entry(key, value, where));
        check_extent(placed.back(), available, where);
    }
    std::sort(placed.begin(), placed.end(), [](const Placed &a, const Placed &b) {
        return std::tie(a.begin, a.end, a.entry.name) < std::tie(b.begin, b.end, b.entry.name);
    });
    check_cover(placed, available, name);
    for (Placed &p : placed) {
        p.entry.begin = start + p.begin;
        index_.emplace(p.entry.name, entries_.size());
        entries_.push_back(std::move(p.entry));
    }
}

const TensorEntry *SafetensorsFile::find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &entries_[found->second];
}

const TensorEntry &SafetensorsFile::at(std::string_view name) const {
    if (const TensorEntry *entry = find(name)) return *entry;
    fail("{}: no tensor {} among its {}", path().string(), shown(name), entries_.size());
}

const TensorEntry &SafetensorsFile::at(std::string_view name, const TensorShape &expected) const {
    const TensorEntry &entry = at(name);
    if (entry.shape != expected)
        fail("{}: tensor {} has shape {}, expected {}", path().string(), shown(name), shape_text(entry.shape),
             shape_text(expected));
    return entry;
}

}  // namespace cryolite
