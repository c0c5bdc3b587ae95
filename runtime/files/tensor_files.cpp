#include "runtime/files/tensor_files.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/io/error.h"
#include "runtime/io/json_depth.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// Tensor -> name of its file.
std::map<std::string, std::string> read_weight_map(const fs::path &index) {
    const std::string text = read_file(index);
    check_json_depth(text, index.string());
    const json j = json::parse(text, nullptr, false);
    const auto map = j.is_object() ? j.find("weight_map") : j.end();
    if (!j.is_object() || map == j.end() || !map->is_object())
        fail("{}: expected an object of JSON with a weight_map of tensors and their files", index.string());
    std::map<std::string, std::string> files;
    for (const auto &[tensor, file] : map->items()) {
        if (!file.is_string()) fail("{}: weight_map: the file of {} is no string", index.string(), shown(tensor));
        const fs::path name = file.get<std::string>();
        if (name.filename() != name || name == ".." || name == ".")
            fail("{}: weight_map: {} is in {}, expected a file of the same folder", index.string(), shown(tensor),
                 shown(file.get<std::string>()));
        files[tensor] = name.string();
    }
    if (files.empty()) fail("{}: weight_map lists no tensor", index.string());
    return files;
}

bool has_shards(const fs::path &folder) {
    std::error_code ignored;
    for (const fs::directory_entry &e : fs::directory_iterator(folder, ignored))
        if (const std::string name = e.path().filename(); name.starts_with("model-") && name.ends_with(".safetensors"))
            return true;
    return false;
}

}  // namespace

TensorFiles::TensorFiles(const fs::path &path) : path_(path) {
    const fs::path one = path / "model.safetensors", index = path / "model.safetensors.index.json";
    std::error_code ignored;
    if (!fs::is_directory(path, ignored) && path.filename().string().ends_with(".safetensors.index.json"))
        open_shards(path);
    else if (!fs::is_directory(path, ignored))
        open(path);
    else if (is_there(one))
        open(one);
    else if (is_there(index))
        open_shards(index);
    else
        fail("{} has no model.safetensors, nor a model.safetensors.index.json with the names of several files, {}",
             path.string(),
             has_shards(path) ? "though there are such files: copy the index, too"
                              : "and other formats, as pytorch_model.bin, are not read: save the weights with "
                                "safe_serialization=True");
}

void TensorFiles::open(const fs::path &file) {
    files_.push_back(std::make_unique<SafetensorsFile>(file));
    for (const TensorEntry &e : files_.back()->entries()) tensors_.push_back({files_.back().get(), &e});
}

void TensorFiles::open_shards(const fs::path &index) {
    const std::map<std::string, std::string> where = read_weight_map(index);
    std::set<std::string> names;
    for (auto &[tensor, file] : where) names.insert(file);
    for (const std::string &name : names) {
        if (!is_there(index.parent_path() / name))
            fail("{} does not exist, but {} names it: copy or download it, too", (index.parent_path() / name).string(),
                 index.filename().string());
        open(index.parent_path() / name);
    }
    for (auto &[tensor, file] : where) {
        const auto of = std::ranges::find_if(files_, [&](auto &f) { return f->path() == index.parent_path() / file; });
        (*of)->at(tensor);
    }
    for (const Tensor &t : tensors_)
        if (const auto at = where.find(t.name());
            at == where.end() || index.parent_path() / at->second != t.file->path())
            fail("{}: tensor {} should not be in this file: by {} it is in {}", t.file->path().string(),
                 shown(t.name()), index.filename().string(), at == where.end() ? "none" : at->second);
}

}  // namespace cryolite
