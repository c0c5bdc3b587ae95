#include "apps/cryolite/inputs/table_data.h"

#include <algorithm>
#include <cmath>

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/session/session.h"
#include "runtime/data/idx.h"
#include "runtime/io/error.h"
#include "runtime/tokenizer/utf8.h"

namespace cryolite {

namespace {

constexpr size_t most_named = 8;  ///< of columns, or of labels, in a line for people

/// "3 to 6, 9"; of many the first ones.
std::string ranges_in_words(const std::vector<int> &numbers) {
    std::string words;
    size_t ranges = 0;
    for (size_t i = 0, end; i < numbers.size(); i = end) {
        if (ranges++ == most_named) return words + ", ...";
        for (end = i + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) end++;
        if (end - i == 2) end = i + 1;  // two numbers are named one by one
        words += fmt::format("{}{}", i ? ", " : "", numbers[i]);
        if (end - i > 1) words += fmt::format(" to {}", numbers[end - 1]);
    }
    return words;
}

/// A warning of labels that no row has: a model has an output for each label up to the largest, also for these.
std::string absent_labels_in_words(const Table &table) {
    const std::vector<int> absent = absent_labels(table);
    if (absent.empty()) return "";
    const int largest = std::ranges::max(table.labels);
    const auto rows = std::ranges::count(table.labels, largest);
    return fmt::format("label{} not occur, though the largest is {}, in {}: an output without rows learns nothing. "
                       "Number the labels from 0 without gaps, or correct what is no label: --classes N "
                       "names the first row whose label is N or more",
                       absent.size() == 1 ? fmt::format(" {} does", absent[0])
                                          : fmt::format("s {} do", ranges_in_words(absent)),
                       largest, rows == 1 ? "1 row" : fmt::format("{} rows", rows));
}

/// "; the first line is a header: a, b, and the label c"; empty: it is none.
std::string header_in_words(const Table &table) {
    if (table.names.empty()) return "";
    const auto name = [](const std::string &n) {
        const bool plain = first_not_utf8(n) == std::string::npos && n.size() <= 40 &&
                           std::ranges::none_of(n, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
        return plain ? n : shown(n, 40);
    };
    const auto list = [&](size_t from, size_t end) {
        const size_t shown_end = std::min(end, from + most_named);
        std::string words;
        for (size_t k = from; k < shown_end; k++) words += (k > from ? ", " : "") + name(table.names[k]);
        return words + (shown_end < end ? ", ..." : "");
    };
    const size_t all = table.names.size();
    return fmt::format("; the first line is a header: {}, and the {} {}", list(0, table.columns),
                       table.targets == 0   ? "label"
                       : table.targets == 1 ? "target"
                                            : "targets",
                       list(table.columns, all));
}

/// Throws UsageError if the headers say that the files have other columns, or in another order.
void check_names(const Table &train, const Table &validation, const TrainSettings &s) {
    if (train.names.empty() || validation.names.empty()) return;
    for (size_t k = 0; k < train.names.size(); k++)
        if (train.names[k] != validation.names[k])
            fail_usage("--val {}: column {} is called {}, in {} it is {}: both have the same columns in the same order",
                       s.validation.string(), k + 1, shown(validation.names[k]), s.data.string(),
                       shown(train.names[k]));
}

}  // namespace

RunData open_table(TrainSettings &s, const Request &r) {
    RunData d;
    const bool chosen = r.values.chosen("classes");
    TableOptions options{.classes = chosen ? s.param("classes", 0) : 0};
    if (s.numbers_wanted) options = {.targets = size_t(s.param("outputs", 1))};
    Table table = load_table(s.data, options);
    if (!chosen && s.params.count("classes")) s.params["classes"] = std::to_string(table.classes);
    d.digest = table.digest, d.warning = absent_labels_in_words(table);
    const std::string header = header_in_words(table);
    if (s.validation.empty()) {
        std::tie(d.rows, d.held_out) = split_held_out(table);
    } else {
        d.held_out = load_table(s.validation, {table.columns, table.classes, options.targets});
        check_names(table, d.held_out, s);
        d.rows = std::move(table);
    }
    if (d.rows.rows() == 0) fail_usage("{}: no rows are left for training: every fifth is held out", s.data.string());
    float largest = 0;
    for (float x : d.rows.features) largest = std::max(largest, std::abs(x));
    d.scale = largest > 0 ? 1 / largest : 1;
    d.about = fmt::format("{} rows of {} features to train on, {} held out, {}{}", d.rows.rows(), d.rows.columns,
                          d.held_out.rows(),
                          d.rows.targets == 0   ? fmt::format("{} classes", d.rows.classes)
                          : d.rows.targets == 1 ? "1 target"
                                                : fmt::format("{} targets", d.rows.targets),
                          header);
    return d;
}

RunData open_images(TrainSettings &s, const Request &r) {
    if (!s.validation.empty())
        fail_usage("--val {}: {} has images to validate of its own (t10k-images-idx3-ubyte); leave it out",
                   s.validation.string(), s.data.string());
    RunData d;
    const bool chosen = r.values.chosen("classes");
    std::tie(d.rows, d.held_out) = load_idx_folder(s.data, chosen ? s.param("classes", 0) : 0);
    if (!chosen && s.params.count("classes")) s.params["classes"] = std::to_string(d.rows.classes);
    if (const size_t side = std::min(d.rows.width, d.rows.height); size_t(s.shift) >= side)
        fail_usage("--shift {} may move an image of {} x {} out of the picture, expected less than {}", s.shift,
                   d.rows.width, d.rows.height, side);
    d.digest = d.rows.digest, d.scale = 1.0f / 255, d.warning = absent_labels_in_words(d.rows);
    if (d.warning.empty() && d.held_out.rows() > 0)
        if (const int seen = std::ranges::max(d.rows.labels), held = std::ranges::max(d.held_out.labels); held > seen)
            d.warning =
                fmt::format("the largest label is {} in the images to validate, and {} in those to train on: no "
                            "output above that learns anything. Correct the labels, or give --classes",
                            held, seen);
    d.about = fmt::format("{} images of {} x {} to train on, {} held out, {} classes", grouped(d.rows.rows()),
                          d.rows.width, d.rows.height, grouped(d.held_out.rows()), d.rows.classes);
    return d;
}

void check_columns(const RunData &d, const TrainSettings &s, const Request &r) {
    const ProgramDescription model = described(r.program, bundle_request(s), Cache(s.cache));
    const Table &rows = d.rows;
    if (rows.targets > 0 && int64_t(rows.targets) != model.outputs)
        fail_usage("the model predicts {} numbers for a row, but has no parameter 'outputs', by which --data is read: "
                   "add a GeneratorParam 'outputs' to it",
                   model.outputs);
    if (int64_t(rows.columns) == model.columns) return;
    const bool given = !s.data.empty(), images = rows.width > 0;
    const std::string param = images ? "size" : "columns";
    std::string next = given ? "name another --data" : "name data with --data";
    if (s.params.count(param) && rows.width == rows.height)
        next += fmt::format(", or give --{} {}", param, images ? rows.width : rows.columns);
    fail_usage("{} has {}, the model reads {}: {}",
               given ? d.name : fmt::format("no --data is given, and {}, its default,", d.name),
               images ? fmt::format("images of {} x {}, {} pixels", rows.width, rows.height, rows.columns)
                      : fmt::format("{} features in a row", rows.columns),
               model.columns, next);
}

}  // namespace cryolite
