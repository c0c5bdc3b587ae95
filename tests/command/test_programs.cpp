// Generator programs as the command runs them. Most are shell scripts here: what a program may do
// wrong does not depend on Halide.

#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/session/step_questions.h"
#include "bundle/plan_json.h"
#include "client/user_program.h"
#include "client/without_compiler.h"
#include "runtime/io/error.h"
#include "runtime/plan/bundle.h"
#include "runtime/system/process.h"
#include "tests/runtime/scratch.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

namespace cryolite::test {

using nlohmann::json;

namespace {

const std::string description =
    R"({"name":"fake","task":"tokens","optimizer":"adamw","optimizers":[{"name":"adamw","numbers":[{"name":"lr",)"
    R"("value":0.1,"range":{"above":0},"help":""}]}],"params":[{"name":"width","type":"int",)"
    R"("value":"8","help":""},{"name":"rate","type":"float","value":"0.5","help":""}],"presets":[]})";

/// A program that counts its builds in the file `builds` beside it.
const std::string good_build =
    R"(echo x >> "$(dirname "$0")/builds"; echo '{"done":0,"total":3,"cached":1}'; echo a word;
       mkdir -p "$2"; echo '{"format":5}' > "$2/plan.json"; echo code > "$2/kernels.so"
       echo '{"done":3,"total":3,"cached":1}')";

struct Fake {
    Scratch scratch;
    Cache cache{scratch / "cache"};
    Program program;

    explicit Fake(const std::string &build = good_build, const std::string &describe = "echo '" + description + "'") {
        program.app = "fake";
        program.path = scratch / "fake";
        program.id = sha256_hex(build);
        write_plainly(program.path,
                      "#!/bin/sh\ncase \"$1\" in --describe) " + describe + " ;; *) " + build + " ;; esac\n");
        fs::permissions(program.path, fs::perms(0700));
    }
    BundleResult get(const BundleRequest &request = {}) { return get_bundle(program, request, cache, progress); }
    int builds() const {
        std::error_code none;
        const auto size = fs::file_size(scratch / "builds", none);
        return none ? 0 : int(size / 2);
    }
    std::function<void(int, int, int)> progress = [](int, int, int) {};
};

struct TimeLimit {
    explicit TimeLimit(const char *seconds) { setenv("CRYOLITE_TIME_LIMIT", seconds, 1); }
    ~TimeLimit() { unsetenv("CRYOLITE_TIME_LIMIT"); }
};

}  // namespace

TEST_CASE("programs: a bundle is built once, and again when it is damaged") {
    Fake fake;
    std::vector<int> seen;
    fake.progress = [&](int done, int, int) { seen.push_back(done); };
    BundleResult r = fake.get();
    CHECK(r.kernels == 3);
    CHECK(r.cached == 1);
    CHECK(seen == std::vector{0, 3});
    CHECK(read_file(r.folder / "plan.json") == "{\"format\":5}\n");
    r = fake.get();
    CHECK(r.kernels == 3);
    CHECK(r.cached == 3);
    CHECK(fake.builds() == 1);
    fs::resize_file(r.folder / "kernels.so", 1);
    CHECK(fake.get().cached == 1);
    CHECK(fake.builds() == 2);
    CHECK(read_file(r.folder / "kernels.so") == "code\n");
}

TEST_CASE("programs: a bundle that another version wrote is built again") {
    for (const char *plan : {"{\"format\":2}", "{\"format\":0}", "{}", "an older plan"}) {
        CAPTURE(plan);
        Fake fake;
        const fs::path folder = fake.get().folder;
        fake.cache.publish(
            "bundles", folder.filename(),
            [&](const fs::path &f) {
                write_plainly(f / "plan.json", plan);
                write_plainly(f / "kernels.so", "other code");
                return std::string("{}");
            },
            true);
        CHECK(fake.get().cached == 1);
        CHECK(fake.builds() == 2);
        CHECK(plan_format(read_file(folder / "plan.json")) == "5");
        CHECK(fake.get().cached == 3);
        CHECK(fake.builds() == 2);
    }
    // A program that is of another version itself is an error, not a loop.
    Fake other(
        R"(echo '{"done":3,"total":3,"cached":1}'; echo '{"format":4}' > "$2/plan.json"; echo > "$2/kernels.so")");
    CHECK_ERROR(load_plan(other.get().folder / "plan.json"), "its format is 4, expected 5");
}

TEST_CASE("programs: an optimizer that the program does not know is refused, with those it does") {
    Scratch scratch;
    const Program gpt = find_program("gpt", Cache(scratch / "cache"));
    CHECK(gpt.description.optimizer_names() == std::vector<std::string>{"adamw", "sgd", "lion", "lars"});
    const ProcessResult r = run_process({.argv = {gpt.path, "--describe", "--optimizer", "nonsense"}});
    CHECK(r.status == 2);
    CHECK(contains(r.errors, "--optimizer is 'nonsense', expected adamw or sgd or lion or lars"));
    const ProgramDescription::Number *beta2 = gpt.description.rule("adamw")->find("beta2");
    REQUIRE(beta2);
    CHECK(beta2->value == 0.95);
    CHECK(beta2->range == RealRange::fraction);
    CHECK(beta2->help == "decay of the mean of squared gradients");
    CHECK(!gpt.description.rule("sgd")->find("beta2"));
}

TEST_CASE("programs: the step after a pass of the compiler, as text; an unknown pass is refused with those there are") {
    Scratch scratch;
    const Program gpt = find_program("gpt", Cache(scratch / "cache"));
    const BundleRequest small{
        .params = {{"layers", "1"}, {"heads", "1"}, {"width", "8"}, {"context", "4"}, {"batch", "1"}, {"vocab", "5"}}};
    const std::string text = step_text(gpt, small, "order");
    CHECK(text.starts_with("after the pass order\n\n"));
    CHECK(text.find("h.0.mlp.c_fc.weight@0") != std::string::npos);
    CHECK(text.find("after the pass fuse") == std::string::npos);
    CHECK(step_text(gpt, small, "all").find("after the pass fuse\n") != std::string::npos);
    CHECK_ERROR(
        step_text(gpt, small, "fusion"),
        "--ir is 'fusion', expected all or lines or trace or simplify or find-products or freeze or chunk-head");
    Fake fake("echo oops >&2; exit 1");
    CHECK_ERROR(step_text(fake.program, {}, "all"), "oops");  // a refusal is its own words
    Fake broken("echo oops >&2; exit 3");
    CHECK_ERROR(step_text(broken.program, {}, "all"), "fake did not show its step");
}

TEST_CASE("programs: every part of the key makes another bundle, a default that is spelled out "
          "does not") {
    Fake fake;
    const fs::path first = fake.get().folder;
    CHECK(fake.get({.params = {{"width", "8"}}}).folder == first);
    CHECK(fake.get({.params = {{"width", "08"}, {"rate", "0.50"}}}).folder == first);
    CHECK(fake.builds() == 1);
    std::set<fs::path> folders = {first};
    folders.insert(fake.get({.params = {{"width", "9"}}}).folder);
    folders.insert(fake.get({.params = {{"rate", "0.25"}}}).folder);
    folders.insert(fake.get({.params = {}, .step = {.optimizer = "sgd"}}).folder);
    folders.insert(fake.get({.params = {}, .step = {.update = "separate"}}).folder);
    folders.insert(fake.get({.params = {}, .step = {.clip = 1}}).folder);
    folders.insert(fake.get({.params = {}, .step = {.accumulate = 2}}).folder);
    fake.program.id = sha256_hex("changed");
    folders.insert(fake.get().folder);
    CHECK(folders.size() == 8);
    CHECK(fake.builds() == 8);
}

TEST_CASE("programs: two that need the same bundle build it once") {
    Fake fake("sleep 0.3; " + good_build);
    const pid_t pid = fork();
    if (pid == 0) {
        try {
            fake.get();
            _exit(0);
        } catch (...) {
            _exit(1);
        }
    }
    CHECK(fake.get().kernels == 3);
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    CHECK(fake.builds() == 1);
}

TEST_CASE("programs: whatever goes wrong is said with the program's name and words") {
    CHECK_ERROR(Fake("echo \"fake: kernel 'x': too wide\" >&2; exit 1").get(), "kernel 'x': too wide");
    CHECK_ERROR(Fake("echo before >&2; kill -ABRT $$").get(), "fake did not build its kernels: it crashed (Aborted)");
    CHECK_ERROR(Fake("echo before >&2; kill -ABRT $$").get(), "before");
    CHECK_ERROR(Fake("exit 0").get(), "wrote no plan.json");
    CHECK_ERROR(Fake(good_build, "kill -SEGV $$").get(), "fake did not describe its model: it crashed (Segmentation");
    CHECK_ERROR(Fake(good_build, "echo hello").get(), "answered --describe with \"hello");
    CHECK_ERROR(
        Fake(good_build, "echo 'fake: --width is 8, expected less' >&2; exit 1").get({.params = {{"width", "8"}}}),
        "expected less");
    const TimeLimit limit("0.4");
    CHECK_ERROR(Fake("sleep 100").get(), "it ran longer than the limit of 0.6 s");
    CHECK_ERROR(Fake("while true; do echo talk; done > /dev/null").get(), "limit of 0.6 s");
    CHECK_ERROR(Fake(good_build, "sleep 100").get(), "limit of 0.4 s");
}

TEST_CASE("programs: an odd answer is refused by name, an odd line is a word of the program's own") {
    const auto described = [](const std::string &from, const std::string &to) {
        std::string text = description;
        text.replace(text.find(from), from.size(), to);
        return error_of([&] { Fake(good_build, "echo '" + text + "'").get(); });
    };
    const auto refused = [&](const std::string &from, const std::string &to, const char *what) {
        CAPTURE(to);
        const std::string message = described(from, to);
        CAPTURE(message);
        CHECK(contains(message, "fake answered --describe with "));
        CHECK(contains(message, what));
        CHECK(!contains(message, "json.exception"));
    };
    refused("\"fake\"", "5", "{\\\"name\\\":5");
    refused("\"fake\"", "\"\"", "an empty name");
    refused("\"tokens\"", "\"pictures\"", "the task \"pictures\", expected tokens or features");
    const auto renamed = [&](const std::string &from, const std::string &to, const char *what) {
        CHECK(described(from, to).starts_with("fake: " + std::string(what)));
    };
    renamed("\"width\"", "\"my width\"", "the GeneratorParam \"my width\" becomes a flag, which is letters");
    renamed("\"rate\"", "\"width\"", "there are two of the GeneratorParam 'width': rename one");
    renamed("\"width\"", "\"lr\"",
            "the GeneratorParam 'lr' has the name of a flag of cryolite, --lr (of the optimizer adamw): a program's "
            "parameters and numbers are flags beside those, so rename it, as 'my-lr'");
    renamed("\"lr\"", "\"l r\"", "the Scalar of adamw \"l r\" becomes a flag, which is letters");
    refused("\"int\"", "\"text\"", "the type \"text\" of width, expected int, float or bool");
    refused("\"0.5\"", "\"half\"", "\"half\", no number, as the default of rate");
    refused("\"adamw\",\"optimizers\"", "\"adam\",\"optimizers\"",
            "the optimizer \"adam\", which is none of its optimizers");
    refused("0.1", "-1", "-1 as the default of the Scalar lr of adamw, out of its range");
    refused("\"presets\":[]", "\"presets\":[],\"peer\":\"../x.py\"",
            "the peer \"../x.py\", which is no name of a file");
    refused("\"presets\":[]", "\"presets\":7", "not with its model");
    refused("[{", "[[[[{", "not with its model");
    for (const char *line : {R"({"done":"x","total":3,"cached":1})", R"({"done":-1,"total":3,"cached":1})",
                             R"({"done":1e99,"total":3,"cached":1})", R"({"phase":7,"done":1,"total":2})",
                             R"({"phase":"a","done":[],"total":2})", R"([[[[[{)", "\xff"}) {
        CAPTURE(line);
        Fake fake("echo '" + std::string(line) + "'; " + good_build);
        CHECK(fake.get().kernels == 3);
    }
}

TEST_CASE("programs: what comes before the first kernel is told, and is a sign of life") {
    std::string words;
    auto get = [&](Fake &fake) {
        get_bundle(fake.program, {}, fake.cache, fake.progress, [&](const std::string &w) { words += w + ";"; });
    };
    Fake fake(R"(echo '{"phase":"reading","done":2,"total":5}'; )" + good_build);
    get(fake);
    CHECK(words == "reading: 2 of 5;");
    words.clear();
    const TimeLimit limit("0.4");
    Fake slow(R"(for i in 1 2 3 4 5; do sleep 0.2; echo '{"phase":"reading","done":2,"total":5}'; done; )" +
              good_build);
    get(slow);
    CHECK(words.size() == 5 * std::string("reading: 2 of 5;").size());
}

TEST_CASE("programs: exit status 2 is a usage error") {
    CHECK_THROWS_AS(Fake("echo 'fake: needs 900 GB' >&2; exit 2").get(), UsageError);
    CHECK_ERROR(Fake("echo 'fake: needs 900 GB' >&2; exit 2").get(), "needs 900 GB");
}

TEST_CASE("programs: parameters that the model refuses, and lines that are none, are usage errors") {
    Scratch scratch;
    const Program gpt = find_program("gpt", Cache(scratch / "cache"));
    CHECK_THROWS_WITH_AS(model_weights(gpt, {.params = {{"heads", "3"}, {"layers", "1"}}}),
                         doctest::Contains("[h.0.attn] width 128 is not divisible by 3 heads (--heads 3)"), UsageError);
    BundleRequest lines{.params = {{"layers", "1"}}};
    lines.step.lines = "s(h.0.atn).compute_root()";
    CHECK_THROWS_WITH_AS(step_plan(gpt, lines), doctest::Contains("the model has no 'h.0.atn'"), UsageError);
    lines.step.lines = "s.budget(10kB)";
    CHECK_THROWS_WITH_AS(step_plan(gpt, lines), doctest::Contains("; the nearest legal line is s.budget("), UsageError);
    lines.step.lines = "none", lines.step.budget = 10'000;
    CHECK_THROWS_WITH_AS(step_plan(gpt, lines), doctest::Contains("; allow that with --recompute "), UsageError);
}

TEST_CASE("programs: apps by name") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    const Program gpt = find_program("gpt", cache);
    CHECK(gpt.description.task == "tokens");
    CHECK(gpt.description.presets.at(0).first == "nano");
    // The second time its words come from the cache: a damaged one is asked again.
    const fs::path folder = cache.list("descriptions").at(0).folder;
    fs::resize_file(folder / "description.json", 10);
    CHECK(find_program("gpt", cache).description.params.size() == gpt.description.params.size());
    CHECK_ERROR(find_program("gtp", cache), "there is no app \"gtp\" (did you mean gpt?): expected");
    CHECK_ERROR(find_program("zebra", cache), "there is no app \"zebra\": expected");
    CHECK_ERROR(find_program("../gpt", cache), "No such file");
    CHECK_THROWS_AS(find_program("none.cpp", cache), UsageError);
    CHECK_ERROR(find_program("none.cpp", cache), "none.cpp: No such file");
    CHECK_ERROR(find_program(scratch.path.string(), cache), "is not a file");
}

TEST_CASE("programs: gpt says how other programs hold it") {
    Scratch scratch;
    const Program gpt = find_program("gpt", Cache(scratch / "cache"));
    CHECK(gpt.description.peer == "torch_gpt.py");
    TrainSettings s;
    for (const ProgramDescription::Param &p : gpt.description.params) s.params[p.name] = p.value;
    const json config = json::parse(model_config(s, gpt));
    CHECK(config["architectures"] == json({"GPT2LMHeadModel"}));
    CHECK(config["n_layer"] == 4);
    CHECK(config["n_positions"] == 64);
    CHECK(config["vocab_size"] == 65);
    CHECK(config["bos_token_id"].is_null());
    CHECK(config.size() == 20);
}

TEST_CASE("programs: without a compiler, what the cache has is taken, and what it lacks is named") {
    Fake fake;
    const BundleRequest given{.params = {{"width", "16"}}};
    const fs::path folder = fake.get(given).folder;
    const json parts = json::parse(bundle_parts(fake.program, given, fake.cache));
    CHECK(compiled_program_id("fake", parts["machine"], fake.cache) == fake.program.id);
    // Of a GPU's kernels the host does no more than launch them: any such processor is theirs.
    const BundleRequest of_gpu{.params = {}, .step = {.device = "cuda"}};
    CHECK(parts["machine"] == machine_id());
    CHECK(json::parse(bundle_parts(fake.program, of_gpu, fake.cache))["machine"].get<std::string>().size() < 10);
    CHECK_ERROR(compiled_program_id("other", "", fake.cache), "has no compiled bundle of other (it has some of fake)");
    Program program = fake.program;
    program.path.clear();
    program.description.params = {{"width", "int", "8", ""}, {"rate", "float", "0.5", ""}};
    CHECK(get_bundle(program, given, fake.cache, {}).folder == folder);
    CHECK_ERROR(get_bundle(program, {.params = {{"width", "32"}}}, fake.cache, {}), "--width 16 -> 32");
    CHECK_ERROR(get_bundle(program, {.params = {{"width", "16"}}, .step = {.clip = 1}}, fake.cache, {}),
                "--clip no -> yes");
    CHECK(fake.builds() == 1);
    // A newer program that compiled for another processor goes after an older one that compiled for this.
    auto publish = [&](const std::string &id, const std::string &machine) {
        fake.cache.publish("bundles", sha256_hex(id + machine), [&](const fs::path &f) {
            write_plainly(f / "plan.json", "{}");
            return json{{"app", "fake"}, {"kernels", 1}, {"parts", {{"program", id}, {"machine", machine}}}}.dump();
        });
    };
    publish("newer", "another");
    CHECK(compiled_program_id("fake", parts["machine"], fake.cache) == fake.program.id);
    CHECK(compiled_program_id("fake", "another", fake.cache) == "newer");
}

TEST_CASE("programs: a program of one's own is compiled when it or its headers changed") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    fs::create_directory(scratch / "my models");
    const fs::path source = scratch / "my models/m.cpp";
    write_plainly(scratch / "my models/my width.h", "constexpr int width = 8;\n");
    write_plainly(source, "#include \"my width.h\"\n#include <cstdio>\nint main() { "
                          "std::printf(\"%d\\n\", width); }\n");
    auto time_of = [&] { return fs::last_write_time(user_program(source, cache)->path()); };
    const auto first = time_of();
    CHECK(time_of() == first);
    write_plainly(scratch / "my models/my width.h", "constexpr int width = 9;\n");
    const auto second = time_of();
    CHECK(second != first);
    CHECK(time_of() == second);
    fs::resize_file(user_program(source, cache)->path(), 100);
    CHECK(time_of() != second);
    CHECK_ERROR(find_program(source, cache), "answered --describe with \"9\\x0a\"");
}

TEST_CASE("programs: the compiler's own message, with file and line") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    const fs::path source = scratch / "wrong.cpp";
    write_plainly(source, "#include \"generators/driver/program.h\"\nint main() { return nothing_like_it; }\n");
    CHECK_ERROR(find_program(source, cache), "wrong.cpp:2:21: error: ");
    CHECK(!fs::exists(cache.folder() / "programs" / "program"));
    const fs::path odd = write_plainly(scratch / "caf\xe9.cpp", "int main() {}\n");
    CHECK_ERROR(find_program(odd, cache), "caf\\xe9.cpp\" is not UTF-8: rename the file");
    write_plainly(source, "#include \"od\xe9.h\"\nint main() {}\n");
    write_plainly(scratch / "od\xe9.h", "");
    CHECK_ERROR(find_program(source, cache), "od\\xe9.h\" is not UTF-8: rename the file");
    write_plainly(source, "");
    CHECK_ERROR(find_program(source, cache), "is empty");
    write_plainly(source, "int main(int, char **) { volatile int *p = nullptr; return *p; }\n");
#if defined(__SANITIZE_ADDRESS__)  // programs are built as this test is, and then the signal is an exit status
    CHECK_ERROR(find_program(source, cache), "SEGV");
#else
    CHECK_ERROR(find_program(source, cache), "it crashed (Segmentation fault)");
#endif
    const TimeLimit limit("1");
    write_plainly(source, "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) for (long j = 0; j < "
                          "n; ++j) s += j; return s; }\n"
                          "template <int N> struct Loop { static constexpr long v = Loop<N - 1>::v + f(200 + N); };\n"
                          "template <> struct Loop<0> { static constexpr long v = 0; };\nint main() { return "
                          "Loop<800>::v != 0; }\n");
    CHECK_ERROR(find_program(source, cache), "it ran longer than the limit of 1 s");
}

}  // namespace cryolite::test
