// Joins the GPT model with its schedule.

#include "dsl/models/gpt.h"
#include "generators/driver/program.h"
#include "schedules/models/gpt.h"

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "gpt"};
    info.presets = {
        {"nano",
         {{"layers", "4"}, {"heads", "4"}, {"width", "128"}, {"context", "64"}, {"batch", "12"},
          {"tokenizer", "char"}, {"steps", "2000"}, {"lr", "1e-3"}, {"min-lr", "1e-4"}, {"warmup", "100"},
          {"beta1", "0.9"}, {"beta2", "0.99"}, {"weight-decay", "0.1"}, {"clip", "1.0"}}},
        {"gpt2",
         {{"layers", "12"}, {"heads", "12"}, {"width", "768"}, {"positions", "1024"}, {"context", "1024"},
          {"batch", "1"}, {"tokenizer", "gpt2"}, {"steps", "100"}, {"lr", "6e-4"}, {"min-lr", "6e-5"},
          {"warmup", "10"}, {"beta1", "0.9"}, {"beta2", "0.95"}, {"weight-decay", "0.1"}, {"clip", "1.0"}}},
        {"gpt2-xl",
         {{"layers", "48"}, {"heads", "25"}, {"width", "1600"}, {"positions", "1024"}, {"context", "1024"},
          {"batch", "1"}, {"tokenizer", "gpt2"}, {"steps", "100"}, {"lr", "2e-4"}, {"min-lr", "2e-5"},
          {"warmup", "10"}, {"beta1", "0.9"}, {"beta2", "0.95"}, {"weight-decay", "0.1"}, {"clip", "1.0"}}},
    };
    return cryolite::program<cryolite::Gpt, cryolite::schedule_gpt>(argc, argv, info);
}
