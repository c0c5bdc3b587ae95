#pragma once
// Which tensors of files hold which weights of a model.

#include <functional>

#include "runtime/files/tensor_files.h"

namespace cryolite {

/// A tensor of a file that holds a part of a parameter. The parts follow each other along the parameter's outermost
/// extent, in proportion to their shares.
struct TensorPart {
    std::string name;
    int64_t share = 1;
};

/// How files store a parameter of this name: as these parts, or whole where there are none.
using TensorParts = std::function<std::vector<TensorPart>(const std::string &parameter)>;
/// The model's name of a tensor in a file; empty: the tensor is ignored.
using TensorNames = std::function<std::string(const std::string &name)>;

/// The tensors in which files store a parameter, given whole. `parts` may be null: all are whole. Errors: its outermost
/// extent cannot be divided so.
std::vector<TensorSpec> tensors_of(const TensorSpec &parameter, const TensorParts &parts);

/// Finds the tensors of each parameter, in the order of its parts. A file may also have a parameter whole that others
/// store in parts. Errors: a tensor is missing, is not the model's, is there twice or has another shape (name,
/// expected, found).
std::vector<std::vector<TensorFiles::Tensor>> find_weights(const std::vector<TensorSpec> &parameters,
                                                           const TensorFiles &files, const TensorNames &names,
                                                           const TensorParts &parts);

/// An error about a tensor names its file and it.
template <typename... Args>
[[noreturn]] void fail_about(const TensorFiles::Tensor &t, fmt::format_string<Args...> text, Args &&...args) {
    fail("{}: tensor '{}' {}", t.file->path().string(), t.name(), fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace cryolite
