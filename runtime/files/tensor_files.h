#pragma once
// The tensors of a model, in one safetensors file or in several.

#include <memory>

#include "runtime/files/safetensors.h"

namespace cryolite {

/// Of a safetensors file; or of a folder as Hugging Face's transformers saves a model: its model.safetensors, or the
/// files that its model.safetensors.index.json lists.
class TensorFiles {
public:
    struct Tensor {
        const SafetensorsFile *file;
        const TensorEntry *entry;

        const std::string &name() const { return entry->name; }
        void read_float32(std::span<float> out) const { file->read_float32(*entry, out); }
    };

    /// Errors: those of SafetensorsFile; a folder without either; an index that is no JSON of its form, that names a
    /// file out of the folder or one that is not there, a tensor that its file has not, or not all that its files have.
    explicit TensorFiles(const fs::path &path);

    const fs::path &path() const { return path_; }
    /// In the order of their bytes, file by file.
    const std::vector<Tensor> &tensors() const { return tensors_; }

private:
    fs::path path_;
    std::vector<std::unique_ptr<SafetensorsFile>> files_;
    std::vector<Tensor> tensors_;

    void open(const fs::path &file);
    void open_shards(const fs::path &index);
};

}  // namespace cryolite
