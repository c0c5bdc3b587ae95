#pragma once
// The tensors of a model, in one safetensors file or in several.

#include <memory>

#include "runtime/files/safetensors.h"

namespace cryolite {

/// The tensors of a safetensors file; of the files that an index (NAME.safetensors.index.json) lists; or of a folder as
/// Hugging Face's transformers saves a model, which has model.safetensors or model.safetensors.index.json.
class TensorFiles {
public:
    struct Tensor {
        const SafetensorsFile *file;
        const TensorEntry *entry;

        const std::string &name() const { return entry->name; }
        void read_float32(std::span<float> out) const { file->read_float32(*entry, out); }
    };

    /// Errors: those of SafetensorsFile; a folder has neither; an index is not of this JSON form, names a file that is
    /// missing or in another folder, names a tensor that its file has not, or leaves out one that it has.
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
