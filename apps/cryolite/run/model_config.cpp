// config.json beside model.safetensors.

#include <nlohmann/json.hpp>

#include "apps/cryolite/run/run_folder.h"

namespace cryolite {

using nlohmann::json;

std::string model_config(const TrainSettings &s, const Program &program) {
    json j;
    // GPT-2's <|endoftext|> is its last token; other vocabularies have none.
    const json end = s.tokenizer == "gpt2" ? json(50256) : json(nullptr);
    if (program.description.name == "gpt" && s.params.count("positions")) {
        j = {{"architectures", {"GPT2LMHeadModel"}},
             {"model_type", "gpt2"},
             {"activation_function", "gelu_new"},
             {"n_layer", s.param("layers", 0)},
             {"n_head", s.param("heads", 0)},
             {"n_embd", s.param("width", 0)},
             {"n_positions", s.param("positions", 0)},
             {"n_ctx", s.param("context", 0)},
             {"n_inner", 4 * s.param("width", 0)},
             {"vocab_size", s.param("vocab", 0)},
             {"layer_norm_epsilon", 1e-5},
             {"initializer_range", 0.02},
             {"tie_word_embeddings", true},
             {"scale_attn_weights", true},
             {"attn_pdrop", 0.0},
             {"embd_pdrop", 0.0},
             {"resid_pdrop", 0.0},
             {"bos_token_id", end},
             {"eos_token_id", end},
             {"torch_dtype", "float32"}};
    } else {
        j = {{"model_type", "cryolite"}, {"program", program.description.name}, {"params", s.params}};
    }
    return j.dump(2) + "\n";
}

}  // namespace cryolite
