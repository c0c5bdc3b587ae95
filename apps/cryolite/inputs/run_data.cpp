#include "apps/cryolite/inputs/run_data.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "apps/cryolite/session/usage.h"
#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/inputs/init_file.h"
#include "apps/cryolite/inputs/table_data.h"
#include "client/user_program.h"
#include "runtime/collective/processes.h"
#include "runtime/tokenizer/gpt2_tokenizer.h"
#include "runtime/data/idx.h"
#include "runtime/data/shard.h"
#include "runtime/tokenizer/tokenizer_file.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

#ifndef CRYOLITE_SOURCE_DIR  // the build gives the checkout it was made from
#define CRYOLITE_SOURCE_DIR "."
#endif

namespace cryolite {

fs::path source_path(const std::string &path) {
    const char *root = std::getenv("CRYOLITE_ROOT");
    std::error_code ignored;
    fs::path file = build_folder() / path;  // an installation has the file beside its programs
    if ((root && *root) || !fs::exists(file, ignored))
        file = fs::path(root && *root ? root : CRYOLITE_SOURCE_DIR) / path;
    if (!fs::exists(file, ignored))
        fail("the checkout has no {} (looked for {}): set CRYOLITE_ROOT to the folder of "
             "Cryolite's sources, or give --data FILE",
             path, file.string());
    return file;
}

namespace {

int preset_number(const Request &r, const std::string &flag) {
    for (auto &[name, flags] : r.program.description.presets)
        if (name == r.preset && flags.count(flag)) return std::atoi(flags.at(flag).c_str());
    return 0;
}

void set_positions(TrainSettings &s, const Request &r) {
    if (!s.params.count("positions")) return;
    const int context = s.param("context", 1);
    if (!r.values.chosen("positions")) {
        // A preset that does not set the positions has as many as its context.
        const int preset = std::max(preset_number(r, "positions"), preset_number(r, "context"));
        s.params["positions"] = std::to_string(param_of_init(s, r, "positions").value_or(std::max(context, preset)));
    }
    if (const int positions = s.param("positions", 1); context > positions)
        fail_usage("--context {} is longer than the {} positions{}; use a shorter context", context, positions,
                   r.values.chosen("positions") && !r.values.of_init("positions") ? " of --positions" : " of --init");
}

/// `tokens`: how many the tokenizer has.
void set_vocabulary(TrainSettings &s, const Request &r, int tokens, const std::string &whose) {
    if (!s.params.count("vocab")) return;
    const bool chosen = r.values.chosen("vocab");
    if (!chosen) s.params["vocab"] = std::to_string(std::max(tokens, param_of_init(s, r, "vocab").value_or(0)));
    if (const int vocab = s.param("vocab", 0); vocab < tokens)
        fail_usage("--vocab is {}{}, expected at least {}, the vocabulary of {}: {}", vocab,
                   r.values.of_init("vocab") ? " in --init" : "", tokens, whose,
                   r.values.of_init("vocab") || s.resume
                       ? "give the --tokenizer and the data that belong to the weights"
                       : "it may be enlarged, not shrunk");
}

/// The tokenizer of --tokenizer; null: the tokens are the characters of the text.
std::shared_ptr<const Tokenizer> open_tokenizer(const TrainSettings &s, const Request &r) {
    if (s.tokenizer == "char") return nullptr;
    if (s.tokenizer != "gpt2")
        return usage_errors(r.values.of_init("tokenizer") ? "--init: " : "--tokenizer: ",
                            [&] { return tokenizer_of_file(s.tokenizer_file()); });
    const fs::path merges = source_path("apps/gpt/data/vocab.bpe");
    return BpeTokenizer::from_merges(read_file(merges), merges.string());
}

/// "GPT-2", or where the tokens come from.
std::string whose_tokens(const TrainSettings &s) {
    return s.tokenizer == "gpt2" ? "GPT-2" : s.tokenizer == "char" ? s.data.string() : s.tokenizer;
}

RunData open_shard(TrainSettings &s, const Request &r) {
    RunData d;
    const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(s, r);
    const bool chosen = r.values.chosen("vocab");
    const std::optional<int> init = chosen ? std::nullopt : param_of_init(s, r, "vocab");
    if (!chosen && !init && !tokenizer)
        fail_usage("{} is a token shard, which does not say how many different tokens there are: "
                   "give --vocab N",
                   s.data.string());
    // A vocabulary that was given decides, and the shard is checked against it.
    if (!chosen) s.params["vocab"] = std::to_string(init ? *init : tokenizer->size());
    const int vocab = s.param("vocab", tokenizer ? tokenizer->size() : 0);
    const TokenShard shard = open_token_shard(s.data, vocab);
    d.train = shard.tokens, d.digest = shard.digest;
    require_context(d.train, s.param("context", 1), s.data.string());
    // So that text can be generated from the run later.
    if (tokenizer && vocab >= tokenizer->size())
        d.tokenizer = tokenizer;
    else if (tokenizer)
        d.warning = fmt::format("--tokenizer has {} tokens, more than the vocabulary of {}: the run is without it, and "
                                "no text can be sampled from it",
                                tokenizer->size(), vocab);
    if (!s.validation.empty() && is_token_shard(s.validation)) {
        d.validation = open_token_shard(s.validation, vocab).tokens;
        require_context(d.validation, s.param("context", 1), s.validation.string());
    } else if (!s.validation.empty()) {
        if (!tokenizer)
            fail_usage("--val {} is not a token shard, as --data is; with --tokenizer gpt2 or a tokenizer.json it may "
                       "be a text",
                       s.validation.string());
        set_vocabulary(s, r, tokenizer->size(), whose_tokens(s));
        d.validation = encode_stream(*tokenizer, read_text(s.validation));
        require_context(d.validation, s.param("context", 1), s.validation.string());
    }
    return d;
}

RunData open_text(TrainSettings &s, const Request &r) {
    RunData d;
    TextOptions options{.data = s.data, .tokenizer = open_tokenizer(s, r), .context = s.param("context", 1)};
    const bool shard = !s.validation.empty() && is_token_shard(s.validation);
    if (!shard) options.validation = s.validation;
    if (s.tokenizer == "char" && r.values.of_init("vocab") && !r.values.chosen("tokenizer"))
        d.warning =
            fmt::format("--init {} has no tokenizer.json or vocab.json, so the text's characters are numbered anew, "
                        "perhaps not as they were when these weights were trained: --tokenizer FILE names the "
                        "tokenizer.json or vocab.json of the weights",
                        s.init.string());
    TextCorpus corpus = usage_errors(
        r.values.chosen("data") || !s.validation.empty() ? "" : "the default text, as no --data is given: ",
        [&] { return load_text(options); });
    d.tokenizer = corpus.tokenizer, d.digest = corpus.digest, d.sample = true;
    set_vocabulary(s, r, d.tokenizer->size(), whose_tokens(s));
    d.train = corpus.train, d.validation = corpus.validation;
    if (shard) {
        if (!options.tokenizer)
            fail_usage("--val {} is a token shard, but --data is a text of characters; use "
                       "--tokenizer gpt2, a tokenizer.json or a text",
                       s.validation.string());
        d.train = encode_stream(*d.tokenizer, read_text(s.data));
        d.validation = open_token_shard(s.validation, d.tokenizer->size()).tokens;
        require_context(d.validation, options.context, s.validation.string());
    }
    return d;
}

/// The classes of Fashion-MNIST, as its authors name them.
const std::vector<std::string> fashion_mnist_classes = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                                        "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
/// The folder of Debian's package.
fs::path fashion_mnist() {
    const fs::path folder = "/usr/share/datasets/fashion-mnist";
    if (!is_idx_folder(folder))
        fail_usage("{} has no Fashion-MNIST: install it as root, apt-get install dataset-fashion-mnist, or name a "
                   "folder with its files, or other images in their form, with --data FOLDER",
                   folder.string());
    return folder;
}

/// The data that is trained on without --data.
fs::path own_data(const TrainSettings &s, const Request &r) {
    if (s.text) return source_path("apps/gpt/data/tinyshakespeare.txt");
    return r.program.description.data == "fashion-mnist" ? fashion_mnist()
                                                         : source_path("apps/digits/data/digits.csv.gz");
}

/// Throws where what a flag names is not there, or is a folder in place of a text.
void require_there(const char *flag, const fs::path &path, bool text) {
    std::error_code unknown;
    if (text && fs::is_directory(path, unknown))
        fail_usage("--{} {} is a folder, expected a text or a token shard", flag, path.string());
    if (path.empty() || fs::exists(path, unknown) || unknown) return;
    usage_errors(fmt::format("--{}: ", flag), [&] { fail_file("read", path, ENOENT); });
}

RunData open_checked(TrainSettings &s, const Request &r) {
    require_there("data", s.data, s.text), require_there("val", s.validation, s.text);
    const bool embedded = s.data.empty();
    if (embedded && s.numbers_wanted)
        fail_usage("{} predicts numbers, for which no data are embedded: name a table with --data FILE.csv, whose last "
                   "{} the target{}",
                   r.app,
                   s.param("outputs", 1) == 1 ? "column is" : fmt::format("{} columns are", s.param("outputs", 1)),
                   s.param("outputs", 1) == 1 ? "" : "s");
    TrainSettings here = s;  // the embedded data has a path, which the settings of the run do not name
    if (embedded) here.data = own_data(s, r);
    std::error_code ignored;
    const bool shard = s.text && is_token_shard(here.data), images = fs::is_directory(here.data, ignored);
    if (!s.text && !images && (s.shift || s.flip))
        fail_usage(
            "--shift and --flip are for images, and {} is a file: name the folder of the images' IDX files, or, if "
            "it is a table of numbers, add --shift 0 --flip no",
            here.data.string());
    const auto table = [&] {
        return usage_errors(embedded ? "the default data, as no --data is given: " : "",
                            [&] { return open_table(here, r); });
    };
    RunData d = !s.text ? (images ? open_images(here, r) : table()) : shard ? open_shard(here, r) : open_text(here, r);
    if (embedded && images) d.class_names = fashion_mnist_classes;
    set_positions(here, r);
    s.params = here.params;
    d.name = here.data.filename().string();
    if (s.text)
        d.about = fmt::format("{} {} to train on, {}, vocabulary of {}", grouped(d.train.size()),
                              d.tokenizer && d.tokenizer->name() == "char" ? "characters" : "tokens",
                              d.validation.empty() ? "none to validate" : grouped(d.validation.size()) + " to validate",
                              s.param("vocab", 0));
    return d;
}

}  // namespace

RunData open_data(TrainSettings &settings, const Request &request) {
    RunData data = usage_errors("", [&] { return open_checked(settings, request); });
    if (const int preset = preset_number(request, "vocab"), vocab = settings.param("vocab", 0);
        preset && vocab && vocab != preset && !request.values.chosen("vocab") && known_processes().rank() == 0)
        tell("The vocabulary is {}, of {}, not {} as in the preset: {}.", vocab,
             settings.tokenizer == "char" ? data.name : whose_tokens(settings), preset,
             preset > vocab ? fmt::format("--vocab {} keeps that", preset)
                            : "--tokenizer FILE gives the tokens of another file");
    // Without --data, only training needs data that fit the model.
    const bool looks = settings.data.empty() && request.command != Command::train;
    if (data.rows.rows() > 0 && !looks) check_columns(data, settings, request);
    if (!data.warning.empty() && known_processes().rank() == 0) tell("warning: {}: {}", data.name, data.warning);
    return data;
}

RunData data_of_step(TrainSettings &s, const Request &r) {
    const bool images = r.program.description.data == "fashion-mnist";
    if (!s.data.empty() || !(images || s.numbers_wanted)) return open_data(s, r);
    if (images && s.params.count("classes") && !r.values.chosen("classes"))
        s.params["classes"] = std::to_string(fashion_mnist_classes.size());
    return random_data(s, r);
}

RunData random_data(TrainSettings &s, const Request &r) {
    RunData d;
    d.name = s.text ? "random tokens" : "random rows", d.about = d.name;
    usage_errors("", [&] {
        if (!r.values.chosen("vocab") && s.params.count("vocab")) {
            std::optional<int> init = param_of_init(s, r, "vocab");
            // Without a text, the tokens are those of the preset's vocabulary, and need no tokenizer.
            const bool of_preset = preset_number(r, "vocab") && !r.values.chosen("tokenizer");
            const std::shared_ptr<const Tokenizer> tokenizer = init || of_preset ? nullptr : open_tokenizer(s, r);
            if (init || tokenizer) s.params["vocab"] = std::to_string(init ? *init : tokenizer->size());
        }
        set_positions(s, r);
    });
    return d;
}

std::unique_ptr<BatchSource> RunData::source(const TrainSettings &s) const {
    const WindowShape shape{s.param("batch", 1), s.param("context", 1)};
    if (!train.empty()) return s.sequential ? sequential_windows(train, shape) : random_windows(train, shape, s.seed);
    return shuffled_rows(rows, s.param("batch", 1), s.seed, scale, {s.shift, s.flip});
}

}  // namespace cryolite
