// --init FOLDER: what its config.json says of the model, and what contradicts it. The description of config.json is
// that of the llama program.

#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/inputs/config_template.h"
#include "apps/cryolite/inputs/init_file.h"
#include "apps/cryolite/inputs/init_folder.h"
#include "apps/cryolite/inputs/run_data.h"
#include "tests/runtime/llama_folder.h"

namespace cryolite::test {

namespace {

struct Folder {
    Scratch scratch;
    json config = config_of(llama_golden("qwen2"));

    TrainSettings read(const std::vector<std::string> &more = {}) {
        write_plainly(scratch / "config.json", config.dump());
        return understand(request(more));
    }
    Request request(const std::vector<std::string> &more = {}) const {
        std::vector<std::string> flags = {"llama", "--init", scratch.path, "--cache", scratch / "cache"};
        flags.insert(flags.end(), more.begin(), more.end());
        return read_request(Command::train, flags);
    }
};

}  // namespace

TEST_CASE("--init FOLDER: sizes come from config.json") {
    Folder f;
    const TrainSettings s = f.read();
    const std::map<std::string, std::string> expected = {
        {"layers", "2"},       {"heads", "4"},           {"kv-heads", "2"},   {"width", "32"},
        {"hidden", "40"},      {"vocab", "40"},          {"tied", "false"},   {"qkv-bias", "true"},
        {"norm-eps", "1e-06"}, {"rope-base", "1000000"}, {"rope-factor", "1"}};
    for (auto &[name, text] : expected) {
        CAPTURE(name);
        CHECK(s.params.at(name) == text);
    }
    CHECK(s.params.at("context") == "64");  // of the preset
    CHECK(s.tokenizer == "char");
    // Another run's vocabulary has the numbers of its tokens; GPT-2's vocab.json is of another kind.
    write_plainly(f.scratch / "vocab.json", R"({"!": 0, "type": 1})");
    CHECK(f.read().tokenizer == "char");
    write_plainly(f.scratch / "vocab.json", R"({"type": "gpt2", "merges": []})");
    CHECK(f.read().tokenizer == "gpt2");
    write_plainly(f.scratch / "vocab.json", R"({"type": "char", "characters": ["a", "b"]})");
    Request rows = f.request();
    rows.program.description.task = "labels", rows.values.erase("tokenizer");
    give_init(rows, false);
    CHECK(!rows.values.given("tokenizer"));  // a model that reads no text
    CHECK(f.read().tokenizer == (f.scratch / "vocab.json").string());
    write_plainly(f.scratch / "tokenizer.json", "{}");
    CHECK(f.read().tokenizer == (f.scratch / "tokenizer.json").string());
    CHECK(f.read({"--tokenizer", "gpt2"}).tokenizer == "gpt2");

    f.config = config_of(llama_golden("llama 3"));
    for (const char *key : {"num_key_value_heads", "rms_norm_eps", "tie_word_embeddings"}) f.config.erase(key);
    f.config["head_dim"] = 8, f.config["layer_types"] = {"full_attention", "full_attention"};
    const TrainSettings t = f.read();
    for (auto &[name, text] : std::map<std::string, std::string>{{"kv-heads", "3"},
                                                                 {"norm-eps", "1e-06"},
                                                                 {"tied", "false"},
                                                                 {"qkv-bias", "false"},
                                                                 {"rope-factor", "8"},
                                                                 {"rope-original", "16"}})
        CHECK(t.params.at(name) == text);
    // As newer releases of transformers write it.
    f.config["rope_parameters"] = f.config["rope_scaling"];
    f.config["rope_parameters"]["rope_theta"] = 500000;
    f.config.erase("rope_scaling"), f.config.erase("rope_theta");
    CHECK(f.read().params.at("rope-factor") == "8");
    CHECK(f.read().params.at("rope-base") == "500000");
}

TEST_CASE("--init FOLDER: GPT-2's own config.json, as it is published") {
    const Scratch scratch;
    json config = json::parse(R"({
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
        "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})");
    auto read = [&] {
        write_plainly(scratch / "config.json", config.dump());
        return understand(read_request(Command::train, {"gpt", "--init", scratch.path, "--cache", scratch / "cache"}));
    };
    const TrainSettings s = read();
    for (auto &[name, text] : std::map<std::string, std::string>{
             {"layers", "12"}, {"heads", "12"}, {"width", "768"}, {"positions", "1024"}, {"vocab", "50257"}}) {
        CAPTURE(name);
        CHECK(s.params.at(name) == text);
    }
    config["scale_attn_by_inverse_layer_idx"] = true;
    CHECK_ERROR(read(), "scale_attn_by_inverse_layer_idx");
}

TEST_CASE("--init FOLDER: config.json of SmolLM2-135M, Llama 3.2 1B and Qwen2.5-0.5B, as they are published") {
    struct Published {
        const char *config;
        std::map<std::string, std::string> params;
    };
    for (const Published &p :
         {Published{R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
            "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576,
            "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true,
            "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
            "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
            "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
            "transformers_version": "4.40.1", "use_cache": true, "vocab_size": 49152})",
                    {{"layers", "30"},
                     {"heads", "9"},
                     {"kv-heads", "3"},
                     {"width", "576"},
                     {"hidden", "1536"},
                     {"vocab", "49152"},
                     {"tied", "true"},
                     {"qkv-bias", "false"},
                     {"norm-eps", "1e-05"},
                     {"rope-base", "100000"},
                     {"rope-factor", "1"}}},
          Published{R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
            "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
            "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
            "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
            "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
            "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3"},
            "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
            "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})",
                    {{"layers", "16"},
                     {"heads", "32"},
                     {"kv-heads", "8"},
                     {"width", "2048"},
                     {"hidden", "8192"},
                     {"vocab", "128256"},
                     {"tied", "true"},
                     {"qkv-bias", "false"},
                     {"rope-base", "500000"},
                     {"rope-factor", "32"},
                     {"rope-low", "1"},
                     {"rope-high", "4"},
                     {"rope-original", "8192"}}},
          Published{R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
            "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
            "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
            "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
            "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
            "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false,
            "use_sliding_window": false, "vocab_size": 151936})",
                    {{"layers", "24"},
                     {"heads", "14"},
                     {"kv-heads", "2"},
                     {"width", "896"},
                     {"hidden", "4864"},
                     {"vocab", "151936"},
                     {"tied", "true"},
                     {"qkv-bias", "true"},
                     {"norm-eps", "1e-06"},
                     {"rope-base", "1000000"},
                     {"rope-factor", "1"}}}}) {
        Folder f;
        f.config = json::parse(p.config);
        const std::string name = f.config["hidden_size"].dump();
        CAPTURE(name);
        TrainSettings s;
        CHECK(error_of([&] { s = f.read(); }) == "");
        for (auto &[param, text] : p.params) {
            CAPTURE(param);
            CHECK(s.params[param] == text);
        }
    }
}

TEST_CASE("--init FOLDER: without a tokenizer.json, a text brings a warning") {
    Folder f;
    const std::string text = write_plainly(f.scratch / "text", std::string(2000, 'a') + "bcd").string();
    auto said = [&](const std::vector<std::string> &more) {
        std::vector<std::string> words = {"--data", text, "--context", "8"};
        words.insert(words.end(), more.begin(), more.end());
        return stderr_of([&] {
            TrainSettings s = f.read(words);
            CHECK_NOTHROW(open_data(s, f.request(words)));
        });
    };
    CHECK(contains(said({}), "has no tokenizer.json or vocab.json, so the text's characters are numbered anew"));
    CHECK(said({"--tokenizer", "char"}) == "");
    write_plainly(f.scratch / "vocab.json", R"({"type": "char", "characters": ["a", "b", "c", "d", "e"]})");
    CHECK(said({}) == "");
    write_plainly(f.scratch / "text", std::string(2000, 'f'));
    TrainSettings s = f.read({"--data", text});
    CHECK_ERROR(open_data(s, f.request({"--data", text})),
                "is not one of the 5 of the vocabulary of " + (f.scratch / "vocab.json").string());
}

TEST_CASE("--init: a file comes with the tokens of its run, and a damaged vocab.json is named") {
    const Scratch run;
    const fs::path vocabulary = write_plainly(run / "vocab.json", R"({"type": "char", "characters": ["a", "b"]})");
    fs::create_directories(run / "checkpoints/step-2");
    write_plainly(run / "checkpoints/step-2/config.json", config_of(llama_golden("qwen2")).dump());
    const auto tokenizer = [&](const fs::path &init) {
        return understand(read_request(Command::train, {"llama", "--init", init, "--cache", run / "cache"})).tokenizer;
    };
    CHECK(tokenizer(run / "model.safetensors") == vocabulary);
    CHECK(tokenizer(run / "checkpoints/step-2/model.safetensors") == vocabulary);
    CHECK(tokenizer(run / "checkpoints/step-2") == vocabulary);
    CHECK(tokenizer(run / "checkpoints/step-2/") == vocabulary);
    write_plainly(vocabulary, R"({"a": 0})");  // GPT-2's own
    CHECK(tokenizer(run / "model.safetensors") == "char");
    write_plainly(vocabulary, R"({"type": "ch)");
    CHECK_ERROR(tokenizer(run / "model.safetensors"),
                "--init: " + vocabulary.string() + " is no JSON: copy or download it again, or name");
}

TEST_CASE("--init: weights that are not there") {
    const Scratch scratch;
    const Request r = read_request(Command::train, {"llama", "--init", scratch / "none", "--cache", scratch / "cache"});
    TrainSettings s = understand(r);
    CHECK_ERROR(open_data(s, r), "--init: cannot read ");
}

TEST_CASE("without a text, steps are timed with the preset's vocabulary") {
    const Scratch scratch;
    auto vocabulary = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"llama", "--preset", "smollm2-135m", "--cache", scratch / "cache"});
        const Request r = read_request(Command::bench, more);
        TrainSettings s = understand(r);
        random_data(s, r);
        return s.param("vocab", 0);
    };
    CHECK(vocabulary({}) == 49152);
    CHECK(vocabulary({"--vocab", "64"}) == 64);
    CHECK(vocabulary({"--tokenizer", "gpt2"}) == 50257);
}

TEST_CASE("a vocabulary that is not the preset's is said") {
    const Scratch scratch;
    const std::string text = write_plainly(scratch / "text", std::string(2000, 'a') + "bcd").string();
    auto said = [&](const std::vector<std::string> &more) {
        std::vector<std::string> words = {"llama",     "--preset", "smollm2-135m", "--data",         text,
                                          "--context", "8",        "--cache",      scratch / "cache"};
        words.insert(words.end(), more.begin(), more.end());
        const Request r = read_request(Command::train, words);
        TrainSettings s = understand(r);
        return stderr_of([&] { open_data(s, r); });
    };
    CHECK(said({"--tokenizer", "char"}) ==
          "The vocabulary is 4, of text, not 49152 as in the preset: --vocab 49152 keeps that.\n");
    CHECK(said({"--tokenizer", "char", "--vocab", "49152"}) == "");
    CHECK(said({"--tokenizer", "gpt2"}) ==
          "The vocabulary is 50257, of GPT-2, not 49152 as in the preset: --tokenizer FILE gives the tokens of another "
          "file.\n");
}

TEST_CASE("--init FOLDER: a flag or a preset that contradicts config.json is refused") {
    Folder f;
    CHECK_ERROR(f.read({"--layers", "3"}), "--layers is \"3\", but the model of --init has 2 (" +
                                               (f.scratch / "config.json").string() + "): leave it out");
    CHECK_ERROR(f.read({"--preset", "smollm2-135m"}), "(preset smollm2-135m), but the model of --init has");
    CHECK_ERROR(f.read({"--tied", "true"}), "--tied is \"true\", but the model of --init has false");
    CHECK_ERROR(understand(read_request(Command::train, {"llama", "--tied", "maybe", "--cache", f.scratch / "cache"})),
                "--tied is \"maybe\", expected true or false");
    CHECK(f.read({"--layers", "2", "--norm-eps", "0.000001"}).params.at("layers") == "2");
}

TEST_CASE("--init FOLDER: keys that may change numbers and are not known, or are of another model, are named") {
    struct Case {
        const char *key;
        json value;
        const char *words;
    };
    for (const Case &c :
         {Case{"logit_scale", 0.5, "the key \"logit_scale\" (here 0.5) is not known"},
          Case{"hidden_act", "gelu", "\"hidden_act\" is \"gelu\", expected \"silu\""},
          Case{"model_type", "mistral", "expected \"llama\" or \"qwen2\""},
          Case{"attention_bias", true, "\"attention_bias\" is true, expected false"},
          Case{"head_dim", 16, "\"head_dim\" is 16, expected 8, --width / --heads"},
          Case{"use_sliding_window", true, "\"use_sliding_window\" is true, expected false"},
          Case{"use_mrope", true, "\"use_mrope\" is true, expected false"},
          Case{"layer_types", {"sliding_attention"}, "\"layer_types\" is"},
          Case{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}, "\"rope_scaling.rope_type\" is"},
          Case{"rope_scaling", {{"rope_type", "llama3"}, {"odd", 4}}, "\"rope_scaling.odd\""},
          Case{"rope_scaling", {{"type", "linear"}, {"factor", 4}}, "\"rope_scaling.rope_type\" is \"linear\""},
          Case{"rope_scaling", {{"factor", 8}}, "which has no \"high_freq_factor\""},
          Case{
              "rope_scaling",
              {{"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}, {"original_max_position_embeddings", 9}},
              "which has no \"rope_type\": expected \"llama3\""},
          Case{"partial_rotary_factor", 0.5, "\"partial_rotary_factor\" is 0.5, expected 1.0"},
          Case{"num_hidden_layers", "two", "expected a whole number that is not negative"},
          Case{"num_hidden_layers", -1, "expected a whole number that is not negative"},
          Case{"num_hidden_layers", nullptr,
               "\"num_hidden_layers\" is missing, which --layers is read from: add the key"}}) {
        Folder f;
        f.config[c.key] = c.value;
        CAPTURE(c.key);
        CHECK_ERROR(f.read(), c.words);
        CHECK_ERROR(f.read(), (f.scratch / "config.json").string());
    }
    Folder f;
    f.config["logit_scale"] = nullptr;  // says nothing
    f.read();
    f.config["rope_scaling"] = {{"type", "default"}}, f.config["partial_rotary_factor"] = 1;
    CHECK(f.read().params.at("rope-factor") == "1");
    f.config["model_type"] = "gemma", f.config["logit_scale"] = 1;
    CHECK_ERROR(f.read(), "\"model_type\" is \"gemma\"");
    f.config = "text";
    CHECK_ERROR(f.read(), "expected an object of JSON");
    write_plainly(f.scratch / "config.json", "{");
    CHECK_ERROR(understand(f.request()), "config.json is no JSON: copy or download it again");
    write_plainly(f.scratch / "config.json", std::string(100000, '['));
    CHECK_ERROR(understand(f.request()), "config.json: is nested deeper than 100 levels");
    fs::remove(f.scratch / "config.json");
    CHECK_ERROR(understand(f.request()), "config.json does not exist, but the model's sizes are read from it");
}

TEST_CASE("--init FOLDER: a run writes the config.json that it began with, as far as it holds of the run") {
    Folder f;
    const TrainSettings s = f.read();
    const Program program = f.request().program;
    const json written = json::parse(model_config(s, program, f.config.dump()));
    json expected = f.config;
    expected.erase("transformers_version");
    expected["torch_dtype"] = "float32";
    for (auto &[key, value] : expected.items()) {
        CAPTURE(key);
        CHECK(written.at(key) == value);
    }
    CHECK(json::parse(model_config(s, program, written.dump())) == written);  // a resume changes nothing
    f.config["max_position_embeddings"] = 8;                                  // less than the context of the run
    CHECK(json::parse(model_config(s, program, f.config.dump())).at("max_position_embeddings") == 64);
    f.config = written;
    CHECK(f.read().params == s.params);
}

TEST_CASE("--init: tensors by names of one's own") {
    Folder f;
    const std::vector<TensorSpec> specs = {{"net.blk.0.norm.weight", Dtype::f32, {4}},
                                           {"net.tok", Dtype::f32, {40, 32}}};
    write_model(f.scratch.path, specs);
    TrainSettings s = f.read({"--rename", "net.tok=model.embed_tokens.weight", "--rename", "net.blk=model.layers"});
    const Request r = f.request();
    CHECK(s.rename == "net.tok=model.embed_tokens.weight,net.blk=model.layers");
    CHECK(param_of_init(s, r, "vocab") == 40);
    s.rename = "net.blk=model.layers,to=a";  // no part of a name
    CHECK_ERROR(check_init(s, r), "--rename to=a: no tensor name in " + f.scratch.path.string() + " has the part to");
    CHECK_ERROR(f.read({"--rename", "odd"}), "--rename is \"odd\", expected OLD=NEW");
    CHECK_ERROR(understand(read_request(Command::train, {"gpt", "--rename", "a=b"})),
                "--rename is for the tensors of --init");
}

}  // namespace cryolite::test
