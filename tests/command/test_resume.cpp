// What a run that goes on may change, and how it says so.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/run_folder.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

TrainSettings plain() {
    TrainSettings s;
    s.optimizer = "adamw", s.out = "run";
    s.params = {{"layers", "4"}, {"width", "128"}};
    s.numbers = {{"beta1", 0.9}};
    return s;
}

ResumePoint point_of(const TrainSettings &s) {
    ResumePoint p;
    p.settings = flags_of(s);
    return p;
}

}  // namespace

TEST_CASE("a resume may change rates, steps, evaluation, checkpoints, threads and workers, and names what changed") {
    TrainSettings s = plain();
    const ResumePoint point = point_of(s);
    check_same(s, {}, point);
    CHECK(changed_flags(s, point).empty());
    s.rate = {.high = 0.5, .low = 0.25, .warmup = 3, .steps = 7};
    s.eval_every = 8, s.eval_batches = 7, s.checkpoint_every = 9, s.keep = 10, s.give_up_after = 11, s.threads = 12,
    s.workers = 2;
    check_same(s, {}, point);
    const auto changed = changed_flags(s, point);
    CHECK(changed.size() == 11);
    CHECK(changed.at("lr") == "--lr 0.001 -> 0.5");
    CHECK(changed.at("steps") == "--steps 1 -> 7");
    CHECK(changed.at("threads") == "--threads all -> 12");
}

TEST_CASE("a resume may not change the model, the rule or what the data are") {
    const ResumePoint point = point_of(plain());
    auto refused = [&](auto change, const char *words) {
        TrainSettings s = plain();
        change(s);
        CHECK_ERROR(check_same(s, {}, point), words);
    };
    refused([](TrainSettings &s) { s.params["width"] = "64"; }, "--width is 64, but the run in run was made with 128");
    refused([](TrainSettings &s) { s.optimizer = "sgd"; }, "--optimizer is sgd");
    refused([](TrainSettings &s) { s.numbers["beta1"] = 0.5; }, "--beta1 is 0.5");
    refused([](TrainSettings &s) { s.clip = 2; }, "--clip is 2");
    refused([](TrainSettings &s) { s.precision = "bf16"; }, "--precision is bf16");
    refused([](TrainSettings &s) { s.seed = 5; }, "--seed is 5");
}

TEST_CASE("a resume without the run's config.toml names the flag to give") {
    const Scratch scratch;
    TrainSettings s = plain();
    s.out = scratch / "run";
    const ResumePoint point = point_of(s);
    s.params["width"] = "64";
    CHECK_ERROR(check_same(s, {}, point),
                "was made with 128: give --width 128, which the run's config.toml does not say");
    fs::create_directory(s.out);
    write_plainly(s.out / "config.toml", "\nwidth = 128\n");
    CHECK_ERROR(check_same(s, {}, point), "was made with 128: leave it out, or begin another run");
}

TEST_CASE("a resume with another app or preset is refused") {
    const Scratch scratch;
    TrainSettings s = plain();
    s.out = scratch / "run", s.app = "llama", s.preset = "nano";
    fs::create_directory(s.out);
    auto message = [&](const std::vector<std::string> &words) {
        std::vector<std::string> line = {"--resume", "--out", s.out.string(), "--cache", scratch / "cache"};
        line.insert(line.begin(), words.begin(), words.end());
        return error_of([&] { read_request(Command::train, line); });
    };
    write_plainly(s.out / "config.toml", config_toml(s));
    CHECK(contains(message({"digits"}), "is a run of llama, not of digits: " + resume_command(s.out)));
    CHECK(contains(message({"mine.cpp"}), "is a run of llama, not of mine.cpp"));
    CHECK(contains(message({"llama", "--preset", "smollm2-135m"}), "--preset is smollm2-135m, but the run in "));
    CHECK(!contains(message({"llama", "--preset", "nano"}), "--preset is"));
    CHECK(!contains(message({}), "is a run of"));
    s.app = "models/mine.cpp";
    write_plainly(s.out / "config.toml", config_toml(s));
    CHECK(!contains(message({"moved/mine.cpp"}), "is a run of"));
}

TEST_CASE("a run goes on with its own copy of a tokenizer that is gone") {
    const Scratch scratch;
    TrainSettings s;
    fs::create_directories(scratch / "run"), fs::create_directories(scratch / "init");
    s.out = scratch / "run", s.tokenizer = (scratch / "init/tokenizer.json").string();
    write_plainly(s.out / "tokenizer.json", "{}");
    CHECK(s.tokenizer_file() == fs::path(s.tokenizer));  // a new run
    s.resume = true;
    CHECK(s.tokenizer_file() == s.out / "tokenizer.json");
    write_plainly(s.tokenizer, "{}");
    CHECK(s.tokenizer_file() == fs::path(s.tokenizer));
    fs::remove(s.tokenizer), fs::remove(s.out / "tokenizer.json");
    write_plainly(s.out / "vocab.json", "{}");  // its tokens were those of another run
    CHECK(s.tokenizer_file() == s.out / "vocab.json");
}

TEST_CASE("a run of an older release goes on, and what it did not say is not asked for") {
    TrainSettings s = plain();
    s.params = {{"batch", "12"}, {"layers", "4"}};
    s.clip = 1, s.rate = {.high = 1e-3, .low = 1e-4, .warmup = 100, .steps = 2000},
    s.numbers = {{"beta1", 0.9}, {"eps", 1e-8}};
    ResumePoint point;  // as state.json had it before settings were rows
    point.settings = {
        {"accumulate", "1"},     {"batch", "12"},       {"beta1", "0.9"},      {"checkpoint-every", "500"},
        {"clip", "1"},           {"device", "cpu"},     {"dialect", "halide"}, {"eval-every", "250"},
        {"give-up-after", "50"}, {"group", "auto"},     {"head-rows", "auto"}, {"keep", "2"},
        {"layers", "4"},         {"lr", "0.001"},       {"min-lr", "0.0001"},  {"optimizer", "adamw"},
        {"order", "random"},     {"precision", "fp32"}, {"recompute", "auto"}, {"seed", "1"},
        {"steps", "2000"},       {"threads", "all"},    {"tokenizer", "char"}, {"update", "auto"},
        {"val", "none"},         {"warmup", "100"},     {"workers", "1"}};
    check_same(s, {}, point);
    CHECK(changed_flags(s, point).empty());
    TrainSettings frozen = s;
    frozen.freeze = "h.*";
    CHECK_ERROR(check_same(frozen, {}, point), "--freeze is h.*, but the run in run was made with none");
    std::map<std::string, std::string> now = flags_of(s);
    for (const auto &[flag, text] : point.settings) {
        CAPTURE(flag);
        CHECK(now[flag] == text);
    }
}

}  // namespace cryolite::test
