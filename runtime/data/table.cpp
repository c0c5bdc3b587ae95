#include "runtime/data/table.h"

#include "runtime/io/error.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace cryolite {

std::string expand_gzip(std::string bytes, const std::string &origin, size_t limit) {
    if (!bytes.starts_with("\x1f\x8b")) return bytes;
    struct Stream : z_stream {
        Stream() : z_stream{} {
            if (inflateInit2(this, 16 + MAX_WBITS) != Z_OK) fail("zlib cannot start; out of memory?");
        }
        ~Stream() { inflateEnd(this); }
    } stream;
    std::string expanded, buffer(1 << 16, '\0');
    size_t fed = 0;
    for (int status = Z_OK; status != Z_STREAM_END || fed < bytes.size() || stream.avail_in > 0;) {
        if (stream.avail_in == 0) {
            const size_t some = std::min<size_t>(bytes.size() - fed, 1 << 30);
            if (some == 0) fail("{}: the gzip file is truncated; copy or download it again", origin);
            stream.next_in = reinterpret_cast<Bytef *>(bytes.data() + fed);
            stream.avail_in = static_cast<uInt>(some);
            fed += some;
        }
        if (status == Z_STREAM_END) inflateReset(&stream);  // another member follows
        stream.next_out = reinterpret_cast<Bytef *>(buffer.data());
        stream.avail_out = static_cast<uInt>(buffer.size());
        status = inflate(&stream, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            fail("{}: the gzip file is damaged ({}); copy or download it again", origin,
                 stream.msg ? stream.msg : "zlib");
        expanded.append(buffer, 0, buffer.size() - stream.avail_out);
        if (expanded.size() > limit) fail("{}: the gzip file expands to more than {}", origin, human_bytes(limit));
    }
    return expanded;
}

namespace {

/// One line of the file, read field by field.
struct Line {
    const std::string &file;
    size_t number;  ///< from 1
    std::string_view text;
    size_t position = 0;
    bool done = false;

    template <typename... Args>
    [[noreturn]] void refuse(size_t column, fmt::format_string<Args...> text, Args &&...args) const {
        fail("{}: line {}, column {}: {}", file, number, column, fmt::format(text, std::forward<Args>(args)...));
    }

    /// The next field without the spaces around it.
    std::string_view field() {
        const size_t comma = std::min(text.find(',', position), text.size());
        std::string_view value = text.substr(position, comma - position);
        done = comma == text.size();
        position = comma + 1;
        while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
        while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
        return value;
    }
};

float number_in(const Line &line, std::string_view field, size_t column) {
    float value = 0;
    const char *end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error == std::errc::result_out_of_range) line.refuse(column, "{} is outside what a float holds", shown(field));
    if (error != std::errc() || stop != end || field.empty()) line.refuse(column, "{} is not a number", shown(field));
    if (!std::isfinite(value)) line.refuse(column, "{} is not a finite number", shown(field));
    return value;
}

int32_t label_in(const Line &line, float value, size_t column, int classes) {
    if (value == float(no_label)) return no_label;
    // Labels index a vector of classes: far fewer than 2^24, up to which a float holds every
    // integer.
    if (value < 0 || value >= 0x1p24f || value != std::floor(value))
        line.refuse(column, "the label {} is not a whole number from 0 on, or {} of a row without one", value,
                    no_label);
    if (classes > 0 && value >= static_cast<float>(classes))
        line.refuse(column, "the label {} is not one of {} classes (0 to {})", value, classes, classes - 1);
    return static_cast<int32_t>(value);
}

std::string target_words(size_t targets) {
    return targets == 0 ? "a label" : targets == 1 ? "a target" : fmt::format("{} targets", targets);
}

void read_row(Table &table, Line line, const TableOptions &options) {
    const size_t before = table.features.size(), targets = std::max<size_t>(1, options.targets);
    size_t column = 0;
    while (!line.done) {
        ++column;
        const std::string_view field = line.field();
        table.features.push_back(number_in(line, field, column));
    }
    const std::string words = target_words(options.targets);
    if (column <= targets)
        line.refuse(column, "{}, expected features and {}",
                    column == 1 ? "one field" : fmt::format("{} fields", column), words);
    if (table.columns == 0) table.columns = column - targets;
    if (column != table.columns + targets)
        line.refuse(column, "{} fields, expected {}: {} features and {}", column, table.columns + targets,
                    table.columns, words);
    if (options.targets == 0)
        table.labels.push_back(label_in(line, table.features.back(), column, options.classes));
    else
        table.numbers.insert(table.numbers.end(), table.features.end() - long(targets), table.features.end());
    table.features.resize(before + table.columns);
}

/// Labels number the classes: of one that is far beyond the rows, most classes below have none. It is a mistake, as a
/// column that is no label, and a model of so many outputs.
void check_largest(const Table &table, const std::vector<size_t> &lines, const std::string &name) {
    constexpr size_t usual = 1 << 16;
    const auto largest = std::max_element(table.labels.begin(), table.labels.end());
    if (*largest == no_label) fail("{}: no row has a label", name);
    if (const auto classes = static_cast<size_t>(*largest) + 1; classes > std::max(usual, table.rows()))
        fail("{}: line {}, column {}: the label {} would make {} classes of {} rows: labels number the classes from 0 "
             "on; is "
             "the last column the label? Where there are so many classes, give --classes {}",
             name, lines[static_cast<size_t>(largest - table.labels.begin())], table.columns + 1, *largest, classes,
             table.rows(), classes);
}

}  // namespace

Table load_table(const fs::path &path, const TableOptions &options) {
    const std::string name = path.string();
    std::string bytes = read_file(path);
    Table table;
    table.columns = options.columns, table.targets = options.targets;
    table.digest = sha256_hex(bytes);
    const std::string text = expand_gzip(std::move(bytes), name);
    std::vector<size_t> lines;  // by row
    size_t number = 0;
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
        end = std::min(text.find('\n', begin), text.size());
        std::string_view line = std::string_view(text).substr(begin, end - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        ++number;
        if (line.empty()) continue;
        read_row(table, {name, number, line}, options);
        lines.push_back(number);
    }
    if (table.rows() == 0)
        fail("{}: no rows; expected lines of numbers with {} last", name, target_words(options.targets));
    if (options.targets > 0) return table;
    if (options.classes == 0) check_largest(table, lines, name);
    table.classes =
        options.classes > 0 ? options.classes : *std::max_element(table.labels.begin(), table.labels.end()) + 1;
    return table;
}

std::pair<Table, Table> split_held_out(const Table &table, size_t every) {
    Table parts[2];
    for (Table &part : parts) {
        part.columns = table.columns, part.targets = table.targets;
        part.classes = table.classes;
        part.digest = table.digest;
    }
    for (size_t i = 0; i < table.rows(); ++i) {
        Table &part = parts[i % every == 0];
        const auto row = table.row(i);
        part.features.insert(part.features.end(), row.begin(), row.end());
        const auto numbers = table.numbers_of(i);
        part.numbers.insert(part.numbers.end(), numbers.begin(), numbers.end());
        if (table.targets == 0) part.labels.push_back(table.labels[i]);
    }
    return {std::move(parts[0]), std::move(parts[1])};
}

}  // namespace cryolite
