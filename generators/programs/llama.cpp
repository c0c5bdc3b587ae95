// Joins the Llama model with its schedule.

#include "dsl/models/llama.h"
#include "generators/driver/program.h"
#include "schedules/models/llama.h"

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "llama"};
    info.weights = {
        .extents = {{"vocab", "model.embed_tokens.weight", 0, true}, {"width", "model.embed_tokens.weight", 1}},
        .numbered = {{"layers", "model.layers.#.input_layernorm.weight"}}};
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
