#pragma once
// Images and labels as MNIST and Fashion-MNIST have them: IDX files, plain or compressed with gzip.
// http://yann.lecun.com/exdb/mnist: 2 zero bytes, 8 (unsigned bytes), the number of dimensions, each extent as a 32-bit
// number, most significant byte first, then the bytes.

#include "runtime/data/table.h"

namespace cryolite {

struct IdxArray {
    std::vector<size_t> extents;  ///< outermost first
    std::vector<uint8_t> values;
    std::string digest;  ///< SHA-256 of the file
};

/// Errors name the file and the byte: not an IDX file, another type than bytes or number of dimensions, an extent of 0,
/// fewer or more values than its extents say, and what `expand_gzip` refuses.
IdxArray read_idx(const fs::path &path, size_t dimensions);

/// True for a folder with train-images-idx3-ubyte or train-images-idx3-ubyte.gz.
bool is_idx_folder(const fs::path &path);

/// The images and labels of a folder: {training, held out}, from train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each with .gz or without. `classes`: labels must be below this;
/// 0: the largest label of both decides. Errors, which name the file: those of `read_idx`; one that is missing; more
/// images than labels, or fewer; images of two sizes; a label out of range.
std::pair<Table, Table> load_idx_folder(const fs::path &folder, int classes);

}  // namespace cryolite
