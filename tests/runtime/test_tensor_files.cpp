// Weights in several files.

#include "runtime/files/tensor_files.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

struct Folder {
    Scratch scratch;

    Folder() {
        write("a.safetensors", {"x", "y"}), write("b.safetensors", {"z"});
        index(R"({"metadata": {}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})");
    }
    void write(const char *file, const std::vector<std::string> &names) const {
        std::vector<TensorSpec> specs;
        for (const std::string &name : names) specs.push_back({name, Dtype::f32, {2}});
        SafetensorsWriter writer(scratch / file, specs);
        for (const std::string &name : names) {
            const std::vector<float> values = {float(name[0]), 1};
            writer.write(name, std::span<const float>(values));
        }
        writer.finish();
    }
    void index(const std::string &text) const { write_plainly(scratch / "model.safetensors.index.json", text); }
};

}  // namespace

TEST_CASE("tensor files: a folder's shards are one, and its model.safetensors comes first") {
    const Folder f;
    const TensorFiles files(f.scratch.path);
    std::string names;
    std::vector<float> values(2);
    for (const TensorFiles::Tensor &t : files.tensors()) {
        names += t.name();
        t.read_float32(values);
        CHECK(values[0] == float(t.name()[0]));
    }
    CHECK(names == "xyz");
    CHECK(TensorFiles(f.scratch / "b.safetensors").tensors().size() == 1);
    CHECK(TensorFiles(f.scratch / "model.safetensors.index.json").tensors().size() == 3);
    f.write("model.safetensors", {"u"});
    CHECK(TensorFiles(f.scratch.path).tensors().at(0).name() == "u");
}

TEST_CASE("tensor files: an index that does not fit its files is refused by name") {
    const Folder f;
    const auto refused = [&](const std::string &map, const std::string &words) {
        f.index("{\"weight_map\": {" + map + "}}");
        CHECK_ERROR(TensorFiles(f.scratch.path), words);
    };
    const std::string xy = R"("x": "a.safetensors", "y": "a.safetensors")";
    refused(xy + R"(, "z": "c.safetensors")",
            "c.safetensors does not exist, but model.safetensors.index.json names it");
    refused(xy + R"(, "q": "b.safetensors")", "b.safetensors: no tensor \"q\" among its 1");
    refused(R"("x": "a.safetensors")",
            "tensor \"y\" should not be in this file: by model.safetensors.index.json it is in none");
    refused(R"("x": "../a.safetensors")", "expected a file of the same folder");
    refused(R"("x": "..")", "expected a file of the same folder");
    refused(R"("x": 1)", "the file of \"x\" is no string");
    refused("", "weight_map lists no tensor");
    f.index("[]");
    CHECK_ERROR(TensorFiles(f.scratch.path), "expected an object of JSON with a weight_map");
    fs::remove(f.scratch / "model.safetensors.index.json");
    f.write("model-00001-of-00002.safetensors", {"x"});
    CHECK_ERROR(TensorFiles(f.scratch.path),
                "has no model.safetensors, nor a model.safetensors.index.json with the "
                "names of several files, though there are such files: copy the index, too");
    const Scratch other;
    write_plainly(other / "pytorch_model.bin", "");
    CHECK_ERROR(TensorFiles(other.path), "and other formats, as pytorch_model.bin, are not read");
}

}  // namespace cryolite::test
