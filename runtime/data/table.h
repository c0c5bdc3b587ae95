#pragma once
// A table of numbers whose last column is a label, or whose last columns are numbers to predict: CSV, plain or
// compressed with gzip.

#include "runtime/io/files.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cryolite {

/// The label of a row that has none, as PyTorch's losses ignore it.
inline constexpr int32_t no_label = -100;

struct Table {
    size_t columns = 0;              ///< features of a row
    int classes = 0;                 ///< labels are 0 ... classes - 1, or no_label
    std::vector<float> features;     ///< [rows, columns]
    std::vector<int32_t> labels;     ///< [rows]; none where there are numbers to predict
    size_t targets = 0;              ///< numbers to predict for a row; 0: it has a label
    std::vector<float> numbers;      ///< [rows, targets]
    std::vector<std::string> names;  ///< of all columns, where the first line is a header; else none
    std::string digest;              ///< SHA-256 of the file
    size_t width = 0, height = 0;    ///< of images: a row has columns = width * height pixels; 0: rows of numbers
    /// Pixels of images, in place of `features`: [rows, height, width]. Copies of a table share them.
    std::shared_ptr<const std::vector<uint8_t>> pixels = nullptr;

    size_t rows() const { return targets ? numbers.size() / targets : labels.size(); }
    std::span<const float> row(size_t i) const { return std::span(features).subspan(i * columns, columns); }
    /// What is to be predicted for a row.
    std::span<const float> numbers_of(size_t i) const { return std::span(numbers).subspan(i * targets, targets); }
};

struct TableOptions {
    size_t columns = 0;  ///< features expected in every row; 0: as many as the first row has
    int classes = 0;     ///< labels expected below this; 0: the largest label decides
    size_t targets = 0;  ///< columns at the end of a row that are numbers to predict; 0: the last is a label
};

/// Every line holds features, then a label (a whole number from 0 on, or no_label) or the numbers to predict. Empty
/// lines are skipped. The first line is a header where every field is text, in quotes or not, and no two are equal.
/// Errors name the file, line and column: a field is no number or not finite, another number of fields, a bad label, or
/// one far beyond the number of rows where `classes` is not given. Others: a damaged gzip file, and one without rows.
Table load_table(const fs::path &path, const TableOptions &options);
inline Table load_table(const fs::path &path) { return load_table(path, {}); }

/// Labels below the largest one that no row has.
std::vector<int> absent_labels(const Table &table);

/// Rows with index % every == 0 are held out: {training, held out}.
std::pair<Table, Table> split_held_out(const Table &table, size_t every = 5);

/// The content of a gzip file, or `bytes` themselves when they do not begin as one does.
/// Errors: damaged, truncated, larger than `limit` when expanded.
std::string expand_gzip(std::string bytes, const std::string &origin, size_t limit = size_t{4} << 30);

}  // namespace cryolite
