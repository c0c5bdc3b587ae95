// Joins the Llama model with its schedule.

#include "dsl/models/llama.h"
#include "generators/driver/program.h"
#include "schedules/models/llama.h"

namespace {

/// How files of Hugging Face hold Llama, and Qwen 2.5, which has biases.
cryolite::WeightFiles llama_files() {
    return {.ignored = {"rotary_emb.inv_freq"},
            .repeats = {{"lm_head.weight", "model.embed_tokens.weight"}},
            .repeats_where = "tied",
            .extents = {{"vocab", "model.embed_tokens.weight", 0, true}, {"width", "model.embed_tokens.weight", 1}},
            .numbered = {{"layers", "model.layers.#.input_layernorm.weight"}},
            .packed = {{"qkv_proj", {{"q_proj", "heads"}, {"k_proj", "kv-heads"}, {"v_proj", "kv-heads"}}}},
            .config = {.written = R"({
                "architectures": {"$qkv-bias": {"false": ["LlamaForCausalLM"], "true": ["Qwen2ForCausalLM"]}},
                "model_type": {"$qkv-bias": {"false": "llama", "true": "qwen2"}},
                "num_hidden_layers": "$layers", "num_attention_heads": "$heads", "num_key_value_heads": "$kv-heads",
                "hidden_size": "$width", "intermediate_size": "$hidden", "vocab_size": "$vocab",
                "max_position_embeddings": "$context", "hidden_act": "silu", "rms_norm_eps": "$norm-eps",
                "rope_theta": "$rope-base",
                "rope_scaling": {"$rope-factor": {"1": null, "*": {"rope_type": "llama3", "factor": "$rope-factor",
                    "low_freq_factor": "$rope-low", "high_freq_factor": "$rope-high",
                    "original_max_position_embeddings": "$rope-original"}}},
                "tie_word_embeddings": "$tied", "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0,
                "initializer_range": 0.02, "bos_token_id": "$end_of_text", "eos_token_id": "$end_of_text",
                "torch_dtype": "float32"})",
                       .also = R"({"head_dim": "$width/$heads", "rope_interleaved": false, "use_sliding_window": false,
                "use_mrope": false, "partial_rotary_factor": 1.0,
                "rope_scaling": {"$rope-factor": {"1": {"rope_type": "default"}, "*": {"rope_type": "llama3",
                    "factor": "$rope-factor", "low_freq_factor": "$rope-low", "high_freq_factor": "$rope-high",
                    "original_max_position_embeddings": "$rope-original"}}},
                "layer_types": {"$every": "full_attention"},
                "rope_parameters": {"$rope-factor": {"1": {"rope_type": "default", "rope_theta": "$rope-base"},
                    "*": {"rope_type": "llama3", "rope_theta": "$rope-base", "factor": "$rope-factor",
                        "low_freq_factor": "$rope-low", "high_freq_factor": "$rope-high",
                        "original_max_position_embeddings": "$rope-original"}}}})",
                       .otherwise = {{"kv-heads", "$heads"},
                                     {"norm-eps", "1e-6"},
                                     {"rope-base", "10000"},
                                     {"rope-factor", "1"},
                                     {"tied", "false"}},
                       .kept = {"bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings",
                                "initializer_range", "use_cache", "pretraining_tp", "sliding_window",
                                "max_window_layers", "is_llama_config"},
                       .ignored = {"architectures", "torch_dtype", "dtype", "transformers_version", "_name_or_path",
                                   "_attn_implementation_autoset", "transformers.js_config", "unsloth_fixed",
                                   "unsloth_version"},
                       .aliases = {{"type", "rope_type"}}}};
}

}  // namespace

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "llama"};
    info.weights = llama_files(), info.peer = "torch_llama.py";
    info.presets = {
        {"nano",
         {{"layers", "4"},
          {"heads", "4"},
          {"kv-heads", "2"},
          {"width", "128"},
          {"hidden", "384"},
          {"context", "64"},
          {"batch", "12"},
          {"tokenizer", "char"},
          {"steps", "2000"},
          {"lr", "1e-3"},
          {"min-lr", "1e-4"},
          {"warmup", "100"},
          {"beta1", "0.9"},
          {"beta2", "0.99"},
          {"weight-decay", "0.1"},
          {"clip", "1.0"}}},
        {"smollm2-135m",
         {{"layers", "30"},
          {"heads", "9"},
          {"kv-heads", "3"},
          {"width", "576"},
          {"hidden", "1536"},
          {"rope-base", "100000"},
          {"vocab", "49152"},
          {"context", "256"},
          {"batch", "4"},
          {"tokenizer", "gpt2"},
          {"steps", "100"},
          {"lr", "6e-4"},
          {"min-lr", "6e-5"},
          {"warmup", "10"},
          {"beta1", "0.9"},
          {"beta2", "0.95"},
          {"weight-decay", "0.1"},
          {"clip", "1.0"}}},
    };
    return cryolite::program<cryolite::Llama, cryolite::schedule_llama>(argc, argv, info);
}
