// --tokenizer FILE: a text in the tokens of a tokenizer.json, and a run that goes on with the same one.

#include <nlohmann/json.hpp>

#include "apps/cryolite/run/resume.h"
#include "apps/cryolite/inputs/run_data.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

struct Corpus {
    Scratch scratch;
    fs::path text = scratch / "text.txt", file = scratch / "tokenizer.json";

    json members = json::parse(read_file(source_file("tests/data/tokenizers.json")))["smollm2"]["tokenizer"];

    Corpus() {
        std::string words;
        for (int i = 0; i < 500; i++) words += "the ";
        write_plainly(text, words);
        write_plainly(file, members.dump());
    }
    Request request(const std::string &tokenizer) const {
        Request r;
        r.app = "some";
        r.program.description.task = "tokens", r.program.description.optimizer = "adamw";
        r.program.description.optimizers = {{"adamw", {{"lr", 1e-3, RealRange::positive, "rate"}}}};
        r.program.description.params = {{"context", "int", "8", ""}, {"vocab", "int", "9", ""}};
        r.values.give("data", {text.string(), Origin::command_line});
        r.values.give("out", {(scratch / "run").string(), Origin::command_line});
        r.values.give("tokenizer", {tokenizer, Origin::command_line});
        return r;
    }
};

}  // namespace

TEST_CASE("--tokenizer: a file gives a text's tokens and the model's vocabulary") {
    const Corpus c;
    const Request r = c.request(c.file.string());
    TrainSettings s = understand(r);
    const RunData data = open_data(s, r);
    CHECK(data.tokenizer->name() == "tokenizer.json");
    CHECK(s.params.at("vocab") == "700");
    CHECK(data.train.size() < 1000);  // fewer than characters
    CHECK(fs::path(s.tokenizer).is_absolute());
    CHECK(contains(config_toml(s), "tokenizer = \"" + c.file.string() + "\""));
    Request small = c.request(c.file.string());
    small.values.give("vocab", {"300", Origin::command_line});
    TrainSettings too_small = understand(small);
    CHECK_ERROR(open_data(too_small, small),
                "--vocab is 300, expected at least 700, the vocabulary of " + c.file.string());
}

TEST_CASE("--tokenizer: what is none is refused by its name") {
    const Corpus c;
    CHECK_ERROR(understand(c.request("gtp2")), "--tokenizer is \"gtp2\", expected char, gpt2 or the path of a "
                                               "tokenizer.json or a run's vocab.json (did you mean gpt2?)");
    for (const fs::path &path : {c.scratch / "none.json", write_plainly(c.scratch / "odd.json", "{}")}) {
        const Request r = c.request(path.string());
        TrainSettings s = understand(r);
        CHECK_ERROR(open_data(s, r), path.string());
    }
}

TEST_CASE("--tokenizer: a run goes on with the tokenizer that it was made with, whatever its file holds by now") {
    Corpus c;
    const Request r = c.request(c.file.string());
    TrainSettings s = understand(r);
    const RunData data = open_data(s, r);
    ResumePoint point;
    point.settings = flags_of(s), point.data = data.digest;
    fs::create_directory(s.out);
    write_plainly(s.out / "vocab.json", data.tokenizer->to_json() + "\n");
    check_same(s, data, point);
    c.members["normalizer"] = {{"type", "NFC"}};
    write_plainly(c.file, c.members.dump());
    const RunData changed = open_data(s, r);
    CHECK_ERROR(check_same(s, changed, point), "the tokenizer is not the one that the run in");
}

}  // namespace cryolite::test
