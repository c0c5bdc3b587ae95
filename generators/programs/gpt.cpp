// Joins the GPT model with its schedule.

#include "dsl/models/gpt.h"
#include "generators/driver/program.h"
#include "schedules/models/gpt.h"

namespace {

/// How files of Hugging Face hold GPT-2.
cryolite::WeightFiles gpt2_files() {
    return {
        .prefix = "transformer.",
        .ignored = {".attn.bias", ".attn.masked_bias"},
        .repeats = {{"lm_head.weight", "wte.weight"}},
        .extents = {{"vocab", "wte.weight", 0, true}, {"positions", "wpe.weight", 0, true}, {"width", "wte.weight", 1}},
        .numbered = {{"layers", "h.#.ln_1.weight"}},
        .config = {
            .written =
                R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
                "n_layer": "$layers", "n_head": "$heads", "n_embd": "$width", "n_positions": "$positions",
                "n_ctx": "$context", "n_inner": null, "vocab_size": "$vocab", "layer_norm_epsilon": 1e-5,
                "initializer_range": 0.02,
                "tie_word_embeddings": true, "scale_attn_weights": true, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
                "resid_pdrop": 0.0, "bos_token_id": "$end_of_text", "eos_token_id": "$end_of_text",
                "torch_dtype": "float32"})",
            .also = R"({"scale_attn_by_inverse_layer_idx": false, "reorder_and_upcast_attn": false})",
            .kept = {"pad_token_id", "use_cache", "summary_activation", "summary_first_dropout",
                     "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params"},
            .ignored = {"architectures", "n_ctx", "initializer_range", "attn_pdrop", "embd_pdrop", "resid_pdrop",
                        "torch_dtype", "dtype", "transformers_version", "_name_or_path"}}};
}

}  // namespace

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "gpt"};
    info.weights = gpt2_files(), info.peer = "torch_gpt.py";
    info.presets = {
        {"nano",
         {{"layers", "4"},
          {"heads", "4"},
          {"width", "128"},
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
        {"gpt2",
         {{"layers", "12"},
          {"heads", "12"},
          {"width", "768"},
          {"positions", "1024"},
          {"context", "1024"},
          {"batch", "1"},
          {"tokenizer", "gpt2"},
          {"steps", "100"},
          {"lr", "6e-4"},
          {"min-lr", "6e-5"},
          {"warmup", "10"},
          {"beta1", "0.9"},
          {"beta2", "0.95"},
          {"weight-decay", "0.1"},
          {"clip", "1.0"}}},
        {"gpt2-xl",
         {{"layers", "48"},
          {"heads", "25"},
          {"width", "1600"},
          {"positions", "1024"},
          {"context", "1024"},
          {"batch", "1"},
          {"tokenizer", "gpt2"},
          {"steps", "100"},
          {"lr", "2e-4"},
          {"min-lr", "2e-5"},
          {"warmup", "10"},
          {"beta1", "0.9"},
          {"beta2", "0.95"},
          {"weight-decay", "0.1"},
          {"clip", "1.0"}}},
    };
    return cryolite::program<cryolite::Gpt, cryolite::schedule_gpt>(argc, argv, info);
}
