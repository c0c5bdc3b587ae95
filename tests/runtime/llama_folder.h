#pragma once
// Folders as Hugging Face's transformers saves models, with weights and tokens from the formula of
// tests/data/make_llama_goldens.py.

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/files/safetensors.h"
#include "tests/runtime/formula.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

/// Held by bf16, fp16 and fp32 exactly.
inline float formula_value(const std::string &name, uint64_t i) {
    return (name.find("norm") == std::string::npos ? 0.0f : 1.0f) + (float(formula_bits(name, i) % 49) - 24) / 128;
}

inline json llama_golden(const std::string &name) {
    return json::parse(read_file(source_file("tests/data/llama_goldens.json"))).at(name);
}

inline json config_of(const json &a) {
    const bool qwen = a["bias"];
    json j = {{"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
              {"model_type", qwen ? "qwen2" : "llama"},
              {"vocab_size", a["vocab"]},
              {"hidden_size", a["width"]},
              {"intermediate_size", a["hidden"]},
              {"num_hidden_layers", a["layers"]},
              {"num_attention_heads", a["heads"]},
              {"num_key_value_heads", a["kv"]},
              {"rms_norm_eps", a["eps"]},
              {"rope_theta", a["base"]},
              {"rope_scaling", nullptr},
              {"tie_word_embeddings", a["tied"]},
              {"max_position_embeddings", 128},
              {"hidden_act", "silu"},
              {"eos_token_id", 3},
              {"torch_dtype", "bfloat16"},
              {"transformers_version", "4.40.1"},
              {"use_cache", true}};
    if (a.contains("factor"))
        j["rope_scaling"] = {{"rope_type", "llama3"},
                             {"factor", a["factor"]},
                             {"low_freq_factor", a["low"]},
                             {"high_freq_factor", a["high"]},
                             {"original_max_position_embeddings", a["original"]}};
    return j;
}

inline std::vector<TensorSpec> llama_tensors(const json &a, Dtype dtype = Dtype::f32) {
    const int64_t width = a["width"], hidden = a["hidden"],
                  kv = width / a["heads"].get<int64_t>() * a["kv"].get<int64_t>();
    std::vector<TensorSpec> specs = {{"model.embed_tokens.weight", dtype, {a["vocab"], width}}};
    for (int i = 0; i < a["layers"].get<int>(); i++) {
        const std::string path = fmt::format("model.layers.{}.", i);
        auto add = [&](const std::string &name, TensorShape shape) { specs.push_back({path + name, dtype, shape}); };
        add("input_layernorm.weight", {width}), add("post_attention_layernorm.weight", {width});
        for (auto &[name, rows] : {std::pair{"q", width}, {"k", kv}, {"v", kv}}) {
            add(fmt::format("self_attn.{}_proj.weight", name), {rows, width});
            if (a["bias"]) add(fmt::format("self_attn.{}_proj.bias", name), {rows});
        }
        add("self_attn.o_proj.weight", {width, width});
        add("mlp.gate_proj.weight", {hidden, width}), add("mlp.up_proj.weight", {hidden, width});
        add("mlp.down_proj.weight", {width, hidden});
    }
    specs.push_back({"model.norm.weight", dtype, {width}});
    if (!a["tied"]) specs.push_back({"lm_head.weight", dtype, {a["vocab"], width}});
    return specs;
}

inline std::vector<char> formula_bytes(const TensorSpec &spec) {
    std::vector<char> bytes(spec.bytes());
    for (uint64_t i = 0; i < spec.elements(); i++) {
        const float value = formula_value(spec.name, i);
        const auto half = static_cast<_Float16>(value);
        const char *from = spec.dtype == Dtype::f16    ? reinterpret_cast<const char *>(&half)
                           : spec.dtype == Dtype::bf16 ? reinterpret_cast<const char *>(&value) + 2  // its upper half
                                                       : reinterpret_cast<const char *>(&value);
        std::memcpy(&bytes[i * size_of(spec.dtype)], from, size_of(spec.dtype));
    }
    return bytes;
}

inline void write_tensors(const fs::path &file, const std::vector<TensorSpec> &specs) {
    SafetensorsWriter writer(file, specs, {{"format", "pt"}});
    for (const TensorSpec &s : specs) {
        const std::vector<char> bytes = formula_bytes(s);
        writer.write(s.name, std::span(bytes));
    }
    writer.finish();
}

/// In `shards` files: one is model.safetensors.
inline fs::path write_model(const fs::path &folder, const std::vector<TensorSpec> &specs, size_t shards = 1) {
    fs::create_directories(folder);
    if (shards == 1) return write_tensors(folder / "model.safetensors", specs), folder;
    json map;
    for (size_t k = 0; k < shards; k++) {
        std::vector<TensorSpec> some;
        for (size_t i = k; i < specs.size(); i += shards) some.push_back(specs[i]);
        const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, shards);
        for (const TensorSpec &s : some) map[s.name] = name;
        write_tensors(folder / name, some);
    }
    write_plainly(folder / "model.safetensors.index.json", json{{"metadata", {}}, {"weight_map", map}}.dump());
    return folder;
}

}  // namespace cryolite::test
