#include "runtime/data/table.h"

#include "runtime/io/error.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

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
    bool first = false;  ///< the file's first line that is not empty
    size_t position = 0;
    bool done = false;

    template <typename... Args>
    [[noreturn]] void refuse(size_t column, fmt::format_string<Args...> text, Args &&...args) const {
        fail("{}: line {}, column {}: {}", file, number, column, fmt::format(text, std::forward<Args>(args)...));
    }

    /// The next field without the spaces around it. A comma in quotes does not end a field.
    std::string_view field() {
        const size_t begin = text.find_first_not_of(" \t", position);
        const bool quoted = begin < text.size() && text[begin] == '"';
        const size_t close = quoted ? text.find('"', begin + 1) : std::string_view::npos;
        const size_t comma = std::min(text.find(',', close < text.size() ? close : position), text.size());
        std::string_view value = text.substr(position, comma - position);
        done = comma == text.size();
        position = comma + 1;
        while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
        while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
        return value;
    }
};

/// The column name in a header's field; empty: the field is a number, or empty.
std::string name_in(std::string_view field) {
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    const std::string_view number = field.starts_with('+') ? field.substr(1) : field;
    double value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_number = error != std::errc::invalid_argument && stop == number.data() + number.size();
    return is_number ? "" : std::string(field);
}

/// The column names in a header line. None: a field is a number or empty, or two are equal, so it may be a row.
std::vector<std::string> names_in(Line line) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    while (!line.done) {
        names.push_back(name_in(line.field()));
        if (names.back().empty() || !seen.insert(names.back()).second) return {};
    }
    return names;
}

/// `label`: the field is the class of its row.
float number_in(const Line &line, std::string_view field, size_t column, bool label) {
    float value = 0;
    const char *end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error == std::errc::result_out_of_range) line.refuse(column, "{} is outside what a float holds", shown(field));
    if (error != std::errc() || stop != end || field.empty())
        line.refuse(column, "{} is not a number{}", shown(field),
                    label && column > 1 && !field.empty()
                        ? "; the last column is the class of the row, a whole number from 0 on"
                    // In tables with numbered rows the first column often has no name.
                    : line.first && (!name_in(field).empty() || (field.empty() && column == 1))
                        ? "; a first line is skipped as a header where each field is text, and no two are equal"
                        : "");
    if (!std::isfinite(value)) line.refuse(column, "{} is not a finite number", shown(field));
    return value;
}

int32_t label_in(const Line &line, float value, size_t column, int classes) {
    if (value == float(no_label)) return no_label;
    // Labels index a vector of classes: far fewer than 2^24, up to which a float holds every
    // integer.
    if (value < 0 || value >= 0x1p24f || value != std::floor(value))
        line.refuse(column, "the label {} is neither a whole number from 0 on nor {}, which marks a row without one",
                    value, no_label);
    if (classes > 0 && value >= static_cast<float>(classes))
        line.refuse(column, "the label {} is not one of {} classes (0 to {})", value, classes, classes - 1);
    return static_cast<int32_t>(value);
}

std::string target_words(size_t targets) {
    return targets == 0 ? "a label" : targets == 1 ? "a target" : fmt::format("{} targets", targets);
}

/// Where the options do not say how many fields a line has, the first line does.
void check_fields(Table &table, const Line &line, size_t fields, const TableOptions &options) {
    const size_t targets = std::max<size_t>(1, options.targets);
    const std::string words = target_words(options.targets);
    if (fields <= targets)
        line.refuse(fields, "{}, expected features and {}{}",
                    fields == 1 ? "one field" : fmt::format("{} fields", fields), words,
                    fields == 1 && line.text.find_first_of(";\t") < line.text.size()
                        ? "; a comma is what separates fields"
                        : "");
    if (table.columns == 0) table.columns = fields - targets;
    if (fields != table.columns + targets)
        line.refuse(fields, "{} fields, expected {}: {} features and {}", fields, table.columns + targets,
                    table.columns, words);
}

void read_row(Table &table, Line line, const TableOptions &options) {
    const size_t before = table.features.size(), targets = std::max<size_t>(1, options.targets);
    size_t column = 0;
    while (!line.done) {
        ++column;
        const std::string_view field = line.field();
        table.features.push_back(number_in(line, field, column, line.done && options.targets == 0));
    }
    check_fields(table, line, column, options);
    if (options.targets == 0)
        table.labels.push_back(label_in(line, table.features.back(), column, options.classes));
    else
        table.numbers.insert(table.numbers.end(), table.features.end() - long(targets), table.features.end());
    table.features.resize(before + table.columns);
}

/// Where a label is far beyond the number of rows, most classes below it have none. It is a mistake then: the last
/// column is no label, and the model would have that many outputs.
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
    bool first = true;
    constexpr std::string_view mark = "\xef\xbb\xbf";  // the byte order mark with which some programs begin a file
    for (size_t begin = text.starts_with(mark) ? mark.size() : 0, end; begin < text.size(); begin = end + 1) {
        end = std::min(text.find('\n', begin), text.size());
        std::string_view content = std::string_view(text).substr(begin, end - begin);
        if (content.ends_with('\r')) content.remove_suffix(1);
        ++number;
        if (content.empty()) continue;
        const Line line{name, number, content, std::exchange(first, false)};
        if (line.first) table.names = names_in(line);
        if (line.first && !table.names.empty()) {
            check_fields(table, line, table.names.size(), options);
        } else {
            read_row(table, line, options);
            lines.push_back(number);
        }
    }
    if (table.rows() == 0)
        fail("{}: no rows; expected lines of numbers with {} last", name, target_words(options.targets));
    if (options.targets > 0) return table;
    if (options.classes == 0) check_largest(table, lines, name);
    table.classes =
        options.classes > 0 ? options.classes : *std::max_element(table.labels.begin(), table.labels.end()) + 1;
    return table;
}

std::vector<int> absent_labels(const Table &table) {
    std::vector<bool> present;
    for (const int32_t label : table.labels) {
        if (label == no_label) continue;
        if (size_t(label) >= present.size()) present.resize(size_t(label) + 1);
        present[size_t(label)] = true;
    }
    std::vector<int> absent;
    for (size_t k = 0; k < present.size(); k++)
        if (!present[k]) absent.push_back(int(k));
    return absent;
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
