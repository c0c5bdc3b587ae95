// A run held against memory: what is asked of its program, what is chosen, what is refused.
#include "apps/cryolite/session/memory_choice.h"

#include <stdlib.h>

#include "apps/cryolite/session/session.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

/// A program that answers --fit so, and writes what it was asked.
class Asked {
public:
    explicit Asked(const std::string &answer) {
        setenv("CRYOLITE_MEMORY", "1GB", 1);
        request.program.app = "fake", request.program.path = scratch / "fake", request.program.id = sha256_hex(answer);
        const std::string description =
            R"({"name":"fake","task":"tokens","optimizer":"adamw","optimizers":[{"name":"adamw","numbers":[]}],)"
            R"("params":[],"presets":[]})";
        write_plainly(request.program.path, "#!/bin/sh\ncase \"$1\" in --describe) echo '" + description +
                                                "' ;; *) echo \"$@\" > \"$(dirname \"$0\")/asked\"; " + answer +
                                                " ;; esac\n");
        fs::permissions(request.program.path, fs::perms(0700));
        settings.params = {{"batch", "8"}, {"context", "64"}};
        settings.threads = 1;
    }
    ~Asked() { unsetenv("CRYOLITE_MEMORY"); }

    void choose() {
        Progress progress;
        choose_for_memory(settings, request, Cache(scratch / "cache"), progress);
    }
    std::string words() const { return read_file(scratch / "asked"); }

    Scratch scratch;
    Request request;
    TrainSettings settings;
};

/// Of a step of 1.2 GB.
std::string answer(const std::string &way, const std::string &advice = "null", bool fits = false) {
    return fmt::format(R"(echo '{{"phase":"reading","done":1,"total":2}}'; echo '{{"fit":{{"roles":{{)"
                       R"("parameter":200000000,"state":400000000,"gradient":200000000,"activation":400000000}},)"
                       R"("largest":1000000,"fits":{},)"
                       R"("way":{},"advice":{},"least":900000000}}}}')",
                       fits, way, advice);
}

}  // namespace

TEST_CASE("memory choice: a step that fits stays as it was asked for") {
    Asked a(answer("null", "null", true));
    a.choose();
    CHECK(a.settings.update == "auto");
    CHECK(a.settings.recompute == "auto");
    CHECK(a.settings.budget == 0);
    CHECK(a.settings.memory_note.empty());
    // 24 MiB and a stack are the process', and page tables.
    const int64_t room = 1'000'000'000 - (32 << 20) - 1'953'125;
    CHECK(a.words().starts_with(fmt::format("--fit {} --staging 8 --replicas 1 ", room)));
    CHECK(contains(a.words(), "--open update --open recompute "));
    CHECK(contains(a.words(), "--update auto "));
}

TEST_CASE("memory choice: what is chosen stands in the settings as if it had been given") {
    Asked fused(answer(R"({"update":"backward","budget":0,"head_rows":-1,"bytes":800000000})"));
    fused.choose();
    CHECK(fused.settings.update == "backward");
    CHECK(fused.settings.recompute == "auto");
    CHECK(contains(fused.settings.memory_note, "--update backward chosen for memory: the run takes"));
    CHECK(contains(fused.settings.memory_note, "and 1.0 GB are allowed by CRYOLITE_MEMORY"));
    CHECK(contains(config_toml(fused.settings), "update = \"backward\""));

    Asked again(answer(R"({"update":"backward","budget":700000000,"head_rows":256,"bytes":800000000})"));
    again.choose();
    CHECK(contains(config_toml(again.settings), "recompute = \"700000000\""));
    CHECK(again.settings.budget == 700'000'000);
    CHECK(again.settings.head_rows == 256);
    CHECK(contains(again.settings.memory_note, "--update backward --recompute 700000000 --head-rows 256 chosen"));
    CHECK(bundle_request(again.settings).step.budget == 700'000'000);
}

TEST_CASE("memory choice: what was asked for is open to no choice, but the refusal says what would do") {
    Asked a(answer("null", R"({"update":"backward","budget":0,"head_rows":-1,"bytes":800000000})"));
    a.settings.update = "separate", a.settings.recompute = "none";
    CHECK_ERROR(a.choose(), "this run takes 1.2 GB, and 1.0 GB are allowed by CRYOLITE_MEMORY:");
    CHECK_ERROR(a.choose(), "and fits with --update backward; or a smaller --batch (with --accumulate for as many");
    CHECK(!contains(a.words(), "--open"));
}

TEST_CASE("memory choice: what cannot fit is refused with who holds what and what may help; explain goes on") {
    Asked a(answer("null"));
    const std::pair<const char *, const char *> holders[] = {{"weights", "200.0 MB"},
                                                             {"optimizer state", "400.0 MB"},
                                                             {"gradients", "200.0 MB"},
                                                             {"activations", "400.0 MB"},
                                                             {"staging: loading, checkpoint buffers", "8.0 MB"},
                                                             {"threads, kernels, page tables", "35.9 MB"}};
    for (auto &[name, bytes] : holders) CHECK_ERROR(a.choose(), fmt::format("\n  {:<37}{:>9}", name, bytes));
    for (const char *line : {"it still takes 935.3 MB; what may help: a smaller --batch",
                             "--precision bf16, a smaller --context, a smaller model"})
        CHECK_ERROR(a.choose(), line);
    CHECK_THROWS_AS(a.choose(), UsageError);
    a.request.command = Command::explain;
    a.choose();
    CHECK(a.settings.memory_note.starts_with("this run takes 1.2 GB"));
    CHECK(a.settings.update == "auto");
    a.settings.device = "opencl", a.settings.memory_note = "", a.request.command = Command::train;
    a.choose();  // whose memory is its own
    CHECK(a.settings.memory_note.empty());
}

TEST_CASE("memory choice: a program that does not answer is named") {
    for (const char *bad : {"echo oops >&2; kill -SEGV $$", "echo '{\"fit\":{}}'", "true"})
        CHECK_ERROR(Asked(bad).choose(), "fake did not say what its step takes");
    CHECK_ERROR(Asked("echo 'layer x is wrong' >&2; exit 1").choose(), "layer x is wrong");
    CHECK_THROWS_AS(Asked("echo 'no such thing' >&2; exit 2").choose(), UsageError);
}

}  // namespace cryolite::test
