// Flags to settings: where values come from, and what is refused.

#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/cli/near_flags.h"
#include "apps/cryolite/endings/supervisor.h"
#include "apps/cryolite/session/session.h"
#include "bundle/near_names.h"
#include "tests/command/settings_request.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

TEST_CASE("a value comes from the strongest place that gives it") {
    Values v;
    v.give("lr", {"1", Origin::config, "a.toml, line 1"});
    v.give("lr", {"2", Origin::preset, "preset nano"});
    CHECK(v.text("lr") == "1");
    CHECK(v.chosen("lr"));
    v.give("lr", {"3", Origin::command_line});
    v.give("lr", {"4", Origin::config});
    CHECK(v.text("lr") == "3");
    v.give("clip", {"1", Origin::preset, "preset nano"});
    CHECK(v.given("clip"));
    CHECK(!v.chosen("clip"));
}

TEST_CASE("presets set flags, the first one where none is named") {
    CHECK(settings({}).rate.steps == 2000);
    CHECK(settings({}).numbers.at("beta2") == 0.99);
    CHECK(settings({{"steps", "7"}}).rate.steps == 7);
    CHECK(settings({}, "large").param("layers", 0) == 48);
    CHECK(settings({}, "large").rate.steps == 1000);
    CHECK_ERROR(request({}, "nanno"), "--preset is \"nanno\", expected nano or large (did you mean nano?)");
}

TEST_CASE("bad values are refused by name") {
    struct Bad {
        Pairs line;
        const char *message;
    };
    const Bad table[] = {
        {{{"steps", "0"}}, "--steps is \"0\", expected a whole number from 1"},
        {{{"steps", "-5"}}, "--steps is \"-5\""},
        {{{"steps", "1.5"}}, "--steps is \"1.5\""},
        {{{"steps", "99999999999999999999999"}}, "--steps is"},
        {{{"steps", ""}}, "--steps is \"\""},
        {{{"batch", "0"}}, "--batch is \"0\""},
        {{{"batch", "-1"}}, "--batch is \"-1\""},
        {{{"batch", "nan"}}, "--batch is \"nan\""},
        {{{"batch", "100000000"}}, "--batch is \"100000000\", expected a whole number from 1 to 16777216"},
        {{{"batch", "16777216"}}, "tokens, expected at most 16777216"},
        {{{"layers", "four"}}, "--layers is \"four\", expected a whole number"},
        {{{"dropout", "inf"}}, "--dropout is \"inf\", expected a finite number"},
        {{{"lr", "nan"}}, "--lr is \"nan\", expected a number above 0"},
        {{{"lr", "0"}}, "--lr is \"0\", expected a number above 0"},
        {{{"lr", "-1e-3"}}, "--lr is \"-1e-3\""},
        {{{"lr", "1e400"}}, "--lr is \"1e400\""},
        {{{"lr", "fast"}}, "--lr is \"fast\""},
        {{{"lr", "1e-4"}, {"min-lr", "1e-3"}}, "--min-lr is \"1e-3\", expected at most --lr"},
        {{{"min-lr", "0.5"}}, "--min-lr is \"0.5\", expected at most --lr, 0.001"},
        {{{"min-lr", "-1"}}, "--min-lr is \"-1\""},
        {{{"beta1", "1"}}, "--beta1 is \"1\", expected a number from 0 to below 1"},
        {{{"beta2", "-0.1"}}, "--beta2 is \"-0.1\""},
        {{{"weight-decay", "inf"}}, "--weight-decay is \"inf\""},
        {{{"clip", "-1"}}, "--clip is \"-1\""},
        {{{"warmup", "-1"}}, "--warmup is \"-1\""},
        {{{"accumulate", "0"}}, "--accumulate is \"0\""},
        {{{"threads", "0"}}, "--threads is \"0\""},
        {{{"threads", "100000"}}, "--threads is \"100000\""},
        {{{"workers", "0"}}, "--workers is \"0\", expected a whole number from 1"},
        {{{"workers", "5"}}, "--batch 12 is not divisible by --workers 5: it counts sequences over all workers"},
        {{{"batch", "3"}, {"workers", "2"}}, "--batch 3 is not divisible by --workers 2"},
        {{{"seed", "-1"}}, "--seed is \"-1\""},
        {{{"keep", "0"}}, "--keep is \"0\""},
        {{{"precision", "fp8"}}, "--precision is \"fp8\", expected fp32 or bf16"},
        {{{"optimizer", "nonsense"}}, "--optimizer is \"nonsense\", expected adamw or sgd"},
        {{{"optimizer", "adam"}}, "expected adamw or sgd (did you mean adamw?)"},
        {{{"update", "never"}}, "--update is \"never\", expected auto or separate or backward or forward"},
        {{{"group", "all"}}, "--group is \"all\", expected auto or none"},
        {{{"head-rows", "-1"}}, "--head-rows is \"-1\""},
        {{{"head-rows", "some"}}, "--head-rows is \"some\""},
        {{{"recompute", "-1"}}, "--recompute is \"-1\""},
        {{{"recompute", "some"}}, "--recompute is \"some\", expected none, auto or bytes, such as"},
        {{{"recompute", "0"}}, "--recompute is \"0\""},
        {{{"recompute", "40 QB"}}, "--recompute is \"40 QB\""},
        {{{"recompute", "inf"}}, "--recompute is \"inf\""},
        {{{"recompute", "1e9"}}, "--recompute is \"1e9\""},
        {{{"recompute", "99999999TB"}}, "--recompute is \"99999999TB\""},
        {{{"patience", "0s"}}, "--patience is \"0s\", expected a time from 0.1s to 1000h, such as 90s"},
        {{{"patience", "soon"}}, "--patience is \"soon\""},
        {{{"patience", "10 s"}}, "--patience is \"10 s\""},
        {{{"patience", "9999h"}}, "--patience is \"9999h\""},
        {{{"dialect", "mkl"}}, "--dialect is \"mkl\", expected auto or halide or cublaslt or onednn"},
        {{{"device", "tpu"}}, "--device is \"tpu\", expected cpu or opencl or cuda"},
        {{{"device", "cuda"}}, "--device cuda: CRYOLITE_CUDA_DRIVER names /nowhere/libcuda.so, which cannot be loaded"},
        {{{"device", "cuda"}, {"target", "sm_70"}},
         "--target is \"sm_70\", expected auto or host, vectors, baseline, avx2, avx512, arm-64-linux, sm_80, sm_86, "
         "sm_90, "
         "x86-64 ("},
        {{{"dialect", "cublaslt"}}, "--dialect cublaslt is for --device cuda, not for cpu; use halide"},
        {{{"device", "cuda"}, {"dialect", "onednn"}}, "--dialect onednn is for --device cpu, not for cuda; use halide"},
        {{{"device", "cuda"}, {"dialect", "auto"}}, "--dialect auto is for --device cpu, not for cuda; use halide"},
        {{{"device", "cuda"}, {"dialect", "cublaslt"}},
         "--dialect cublaslt: CRYOLITE_CUBLASLT names /nowhere/libcublasLt.so, which cannot be loaded"},
        {{{"precision", "tf32"}},
         "--precision tf32 needs --device cuda --dialect cublaslt; use fp32 with any other device or dialect"},
        {{{"device", "cuda"}, {"precision", "tf32"}}, "--precision tf32 needs --device cuda --dialect cublaslt"},
        {{{"target", "sm_80"}}, "--target sm_80 is for --device cuda, not for cpu"},
        {{{"target", "avx2"}, {"device", "cuda"}}, "--target avx2 is for --device cpu, not for cuda"},
        {{{"target", "avx2,avx2"}}, "--target is \"avx2,avx2\", expected auto or host"},
        {{{"device", "opencl"}, {"workers", "2"}},
         "--device opencl runs one worker, not 2: use --workers 1, or --device cpu or cuda"},
        {{{"order", "backwards"}}, "--order is \"backwards\", expected random or sequential"},
        {{{"tokenizer", "words"}}, "--tokenizer is \"words\", expected char, gpt2 or the path of a tokenizer.json"},
        {{{"resume", "true"}}, "--resume needs --out DIR"},
        {{{"ema", "1"}}, "--ema is \"1\", expected a number from 0 to below 1"},
        {{{"ema", "-0.5"}}, "--ema is \"-0.5\""},
        {{{"save-ema", "true"}},
         "--save-ema needs --ema DECAY, as 0.999: without it no average of the weights is kept"},
        {{{"evaluate-ema", "true"}, {"ema", "0"}}, "--evaluate-ema needs --ema DECAY"},
        {{{"eval-every", "-1"}}, "--eval-every is \"-1\""},
    };
    setenv("CRYOLITE_CUDA_DRIVER", "/nowhere/libcuda.so", 1);  // a machine without one
    setenv("CRYOLITE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    for (const Bad &bad : table) {
        CHECK_ERROR(settings(bad.line), bad.message);
        CHECK_THROWS_AS(settings(bad.line), UsageError);
    }
    unsetenv("CRYOLITE_CUDA_DRIVER");
}

TEST_CASE("a budget may have a unit, as sizes are printed") {
    const std::pair<const char *, uint64_t> table[] = {{"2350000000", 2350000000},
                                                       {"40MB", 40000000},
                                                       {"1.5 GiB", 3ull << 29},
                                                       {"12kB", 12000},
                                                       {"12KB", 12000},
                                                       {"1 KiB", 1024},
                                                       {"1TB", 1000000000000}};
    for (auto &[text, bytes] : table) CHECK(settings({{"recompute", text}}).budget == bytes);
    CHECK(settings({}).budget == 0);
}

TEST_CASE("a time may have a unit") {
    const std::map<std::string, double> table = {{"90s", 90},  {"1.5m", 90},    {"15min", 900},
                                                 {"2h", 7200}, {"250ms", 0.25}, {"7", 7}};
    for (auto &[text, seconds] : table) CHECK(settings({{"patience", text}}).patience == doctest::Approx(seconds));
    CHECK(settings({}).patience == default_patience);
}

TEST_CASE("a supervisor hands on what was typed, but for its own flags") {
    const std::vector<std::string> typed = {"gpt",      "--out",     "a", "--steps=3", "--restarts=2",
                                            "--resume", "--workers", "2", "--json"};
    const std::vector<std::string> rest = {"gpt", "--steps=3", "--json"};
    CHECK(without_flags(typed, {"restarts", "out", "workers", "resume="}) == rest);
}

TEST_CASE("the lines of a schedule are those of its file") {
    Scratch folder;
    const fs::path file = folder / "a.schedule";
    auto lines = [&](const std::string &text) { return settings({{"schedule", write_plainly(file, text)}}).lines; };
    CHECK(settings({}).lines == "none");
    CHECK(lines("s(head).compute_root();\n") == "s(head).compute_root();\n");
    CHECK(bundle_key(settings({{"schedule", file}})).at("lines") == "s(head).compute_root();\n");
    CHECK_FALSE(bundle_key(settings({})).contains("lines"));
    std::vector<std::string> argv;
    add_request(argv, bundle_request(settings({{"schedule", file}})));
    CHECK(std::vector(argv.end() - 2, argv.end()) == std::vector<std::string>{"--lines-from", "a.schedule"});
    CHECK_ERROR(lines(" \n"), "a.schedule: it is empty, expected lines of a step schedule as text");
    CHECK_ERROR(lines(std::string("s(a)\0", 5)), "a.schedule: it is not UTF-8");
    CHECK_ERROR(lines("// \xff"), "a.schedule: it is not UTF-8");
    CHECK_ERROR(lines(std::string(100'000, ' ') + "s"), "a.schedule: it has 100");
    CHECK_ERROR(settings({{"schedule", folder / "none"}}), "--schedule: cannot");
}

TEST_CASE("a run keeps the lines of its schedule, whatever becomes of the file") {
    Scratch folder;
    const std::string text = "# \"mine\" \\\r\ns(head).compute_root();\n\n";
    const std::string file = write_plainly(folder / "a.schedule", text);
    const fs::path config = write_plainly(folder / "config.toml", config_toml(settings({{"schedule", file}})));
    write_plainly(file, "s(other).compute_root()");
    const std::string kept = read_config(config, Origin::resumed).at("lines").text;
    CHECK(kept == text);
    const auto resumed = [&](const Pairs &line) {
        Request r = request(line);
        r.values.give("lines", {kept, Origin::resumed});
        return understand(r).lines;
    };
    CHECK(resumed({}) == text);
    Request moved = request();
    moved.values.give("lines", {kept, Origin::resumed, "runs/a/config.toml, line 9"});
    CHECK(bundle_request(understand(moved)).lines_from == "lines in runs/a/config.toml");
    CHECK(resumed({{"schedule", file}}) == "s(other).compute_root()");
    CHECK(resumed({{"lines", "s(new)"}}) == "s(new)");
    CHECK_ERROR(settings({{"schedule", file}, {"lines", "s(new)"}}),
                "--lines is \"s(new)\", expected none, since --schedule gives lines too");
    CHECK(settings({{"schedule", write_plainly(file, "\xef\xbb\xbfs(head)")}}).lines == "s(head)");
    CHECK_ERROR(settings({{"lines", "a.schedule"}}), "--schedule takes a file of them");
    CHECK_ERROR(settings({{"tuned", file}}), "expected lines of a step schedule: --schedule takes a file of them");
    CHECK_ERROR(settings({{"schedule", "s(head).compute_root()"}}), "; --lines takes lines without a file");
    CHECK_ERROR(settings({{"lines", " "}}), "--lines: it is empty, expected lines of a step schedule as text");
}

TEST_CASE("every worker has its part of the batch") {
    const TrainSettings s = settings({{"workers", "4"}, {"threads", "2"}});
    CHECK(s.workers == 4);
    CHECK(s.threads == 2);
    CHECK(s.param("batch", 0) == 12);
    CHECK(bundle_request(s).params.at("batch") == "3");
    CHECK(bundle_request(s).step.workers == 4);
}

TEST_CASE("--deterministic cuts a batch into parts, as many whatever the number of workers") {
    for (const char *workers : {"1", "2", "4"}) {
        const TrainSettings s = settings({{"deterministic", "true"}, {"workers", workers}});
        CHECK(s.parts == 4);  // of a batch of 12
        CHECK(bundle_request(s).params.at("batch") == "3");
        CHECK(bundle_key(s).at("parts") == 4);
        CHECK(s.tuned == "none");
    }
    CHECK(settings({{"deterministic", "true"}, {"batch", "32"}, {"workers", "8"}}).parts == 8);
    CHECK(settings({{"deterministic", "true"}, {"batch", "7"}}).parts == 1);
    CHECK(fewer_workers(settings({}), 6) == 4);
    CHECK(fewer_workers(settings({}), 4) == 3);
    CHECK(fewer_workers(settings({{"deterministic", "true"}}), 4) == 2);
    CHECK(fewer_workers(settings({{"deterministic", "true"}}), 2) == 1);
    CHECK_FALSE(bundle_key(settings({})).contains("parts"));
    CHECK_ERROR(settings({{"deterministic", "true"}, {"workers", "3"}}),
                "--deterministic cuts --batch 12 into 4 parts, a power of two, which 3 workers cannot share "
                "equally: use a power of two of workers, 4 at most");
    CHECK_ERROR(settings({{"deterministic", "true"}, {"dialect", "auto"}}), "auto takes the faster one");
    CHECK_ERROR(settings({{"deterministic", "true"}, {"tuned", "auto"}}), "--deterministic needs --tuned none");
    CHECK_ERROR(settings({{"deterministic", "true"}, {"device", "opencl"}}), "adds gradients in the host's memory");
}

TEST_CASE("a weaker place's least rate gives way to a rate of the command line") {
    Request r = request({{"lr", "1e-5"}});
    r.values.give("min-lr", {"1e-4", Origin::resumed, "run/config.toml, line 9"});
    CHECK(understand(r).rate.low == 1e-5);
}

TEST_CASE("zero turns off what can be off") {
    const TrainSettings s = settings({{"clip", "0"},
                                      {"warmup", "0"},
                                      {"weight-decay", "0"},
                                      {"eval-every", "0"},
                                      {"checkpoint-every", "0"},
                                      {"min-lr", "0"}});
    CHECK(s.clip == 0);
    CHECK(s.rate.warmup == 0);
    CHECK(s.numbers.at("weight-decay") == 0);
    CHECK(s.eval_every == 0);
    CHECK(s.checkpoint_every == 0);
    CHECK(s.rate.low == 0);
}

TEST_CASE("a message says where a value was given") {
    Request r = request();
    r.values.give("steps", {"many", Origin::config, "my.toml, line 3"});
    CHECK_ERROR(understand(r), "--steps is \"many\" (my.toml, line 3), expected");
}

TEST_CASE("the least rate of a preset gives way to a smaller rate") {
    CHECK(settings({{"lr", "1e-5"}}).rate.low == 1e-5);
    CHECK(settings({{"lr", "1e-2"}}).rate.low == 1e-4);
}

TEST_CASE("bench times without clipping unless it is asked to") {
    CHECK(settings({}).clip == 1);
    CHECK(understand(request({}, "", Command::bench)).clip == 0);
    CHECK(understand(request({}, "", Command::explain)).clip == 1);  // what train would do
    CHECK(understand(request({}, "", Command::bench)).rate.steps == 20);
    CHECK(understand(request({{"clip", "0.5"}}, "", Command::bench)).clip == 0.5);
}

TEST_CASE("the optimizer's own numbers fill what was not given") {
    Request r = request({{"optimizer", "sgd"}});
    const TrainSettings s = understand(r);
    CHECK(s.rate.high == 0.25);  // the preset's are for adamw
    CHECK(s.rate.low == 0.025);
    CHECK(s.numbers == std::map<std::string, double>{{"beta1", 0.9}, {"weight-decay", 0.1}});
    r.values.give("beta2", {"0.9", Origin::command_line});
    CHECK_ERROR(understand(r), "--beta2 was given, but the optimizer sgd has no such number");
    Request resumed = request({{"optimizer", "sgd"}});
    resumed.values.give("beta2", {"0.9", Origin::resumed, "run/config.toml, line 9"});
    CHECK(understand(resumed).optimizer == "sgd");  // that it may not change is said by the checkpoint
    CHECK_ERROR(settings({{"optimizer", "sgd"}, {"min-lr", "0.5"}}),
                "--min-lr is \"0.5\", expected at most --lr, 0.25");
}

TEST_CASE("numbers that a program's own optimizer has are flags, with its own range") {
    Request r = request({{"optimizer", "mine"}, {"patience-of-mine", "3"}});
    ProgramDescription &d = r.program.description;
    d.optimizers.push_back({"mine", {{"patience-of-mine", 1, {.low = 1, .high = 3}, "how long"}}});
    CHECK(understand(r).numbers.at("patience-of-mine") == 3);
    r.values.give("patience-of-mine", {"4", Origin::command_line});
    CHECK_ERROR(understand(r), "--patience-of-mine is \"4\", expected a number from 1 to 3");
    const std::vector<Flag> flags = all_flags(d);
    const auto at = std::ranges::find(flags, "patience-of-mine", &Flag::name);
    REQUIRE(at != flags.end());
    CHECK(at->otherwise == "mine: 1");
    d.optimizers.back().numbers[0].name = "clip";
    CHECK_ERROR(all_flags(d), "gpt: the Scalar 'clip' has the name of a flag of cryolite, --clip (largest norm of the "
                              "gradient; 0: off): a program's parameters and numbers are flags beside those, so rename "
                              "it, as 'my-clip'");
    for (const char *taken : {"threads", "seed", "html", "ir", "help", "app"}) {
        ProgramDescription other = request().program.description;
        other.params.push_back({taken, "int", "1", ""});
        CHECK_ERROR(
            all_flags(other, "my.cpp"),
            fmt::format("my.cpp: the GeneratorParam '{}' has the name of a flag of cryolite, --{} (", taken, taken));
    }
}

TEST_CASE("mistyped words find the nearest flag") {
    CHECK(did_you_mean("step", {"seed", "steps"}) == " (did you mean steps?)");
    CHECK(did_you_mean("zebra", {"seed", "steps"}).empty());
    CHECK(did_you_mean("*", {"seed", "steps"}).empty());
    std::vector<NamedFlag> flags;
    for (const Flag &f : all_flags(request().program.description)) flags.push_back({f.name, f.help});
    for (auto [word, meant] : Pairs{{"--stepz", "--steps"},
                                    {"--weight_decay", "--weight-decay"},
                                    {"--learning-rate", "--lr"},
                                    {"--learning-rate=1e-3", "--lr"},
                                    {"-wd", "--weight-decay"},
                                    {"--num-layers", "--layers"},
                                    {"--batch-size", "--batch or --eval-batches"},
                                    {"--output_dir", "--out"},
                                    {"--peak-lr", "--lr or --min-lr"},
                                    {"--fp16", "--precision or --finite-check or --loss-scale"}}) {
        CAPTURE(word);
        CHECK(flags_meant(word, flags) == " (did you mean " + meant + "?)");
    }
    for (const char *word : {"--zebra", "--", "-", "--=x"}) CHECK(flags_meant(word, flags).empty());
}

}  // namespace cryolite::test
