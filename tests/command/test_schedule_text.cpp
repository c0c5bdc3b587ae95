// The whole schedule that `explain --ir lines` prints: pasted back it gives the same plan, byte by byte. Nothing is
// compiled.

#include <regex>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "apps/cryolite/session/step_questions.h"
#include "bundle/plan.h"
#include "client/user_program.h"
#include "runtime/system/process.h"
#include "tests/runtime/scratch.h"
#include "tests/support/slow.h"

namespace cryolite::test {

using nlohmann::json;

namespace {

using Flags = std::map<std::string, std::string>;

const Flags gpt = {{"layers", "2"},   {"heads", "2"}, {"width", "32"},
                   {"context", "32"}, {"batch", "2"}, {"vocab", "19"}};
const Flags one_block = {{"layers", "1"},   {"heads", "2"}, {"width", "32"},
                         {"context", "32"}, {"batch", "2"}, {"vocab", "19"}};
const Flags nano_gpt = {{"layers", "4"},   {"heads", "4"},  {"width", "128"},
                        {"context", "64"}, {"batch", "12"}, {"vocab", "65"}};
const Flags nano_llama = {{"layers", "4"},   {"heads", "4"},    {"kv-heads", "2"}, {"width", "128"},
                          {"hidden", "384"}, {"context", "64"}, {"batch", "12"},   {"vocab", "65"}};
const Flags small_resnet = {{"size", "8"}, {"width", "4"}, {"layers", "1"}, {"batch", "16"}, {"classes", "5"}};

const std::string some_lines = "loops(h.*.mlp.c_fc, forward): tiles_of_task=1; s(h.0.ln_1).store_at(forward)";

/// A generator program, and steps of it.
struct Asked {
    Scratch scratch;
    Program program;

    explicit Asked(const std::string &app) {
        if (app == "smollm2")  // a program without lines, and no app
            program.app = app, program.path = fs::path(CRYOLITE_BINARY_DIR) / "tests" / app, program.id = app;
        else
            program = find_program(app, Cache(scratch / "cache"));
    }
    ProcessResult ask(const BundleRequest &request, std::vector<std::string> argv) const {
        argv.insert(argv.begin(), program.path.string());
        add_request(argv, request);
        return run_process({.argv = argv});
    }
    std::string plan(const BundleRequest &request) const {
        const fs::path file = scratch / "plan.json";
        const ProcessResult r = ask(request, {"--plan-only", file.string()});
        REQUIRE_MESSAGE(r.ok(), r.errors);
        return read_file(file);
    }
    std::string lines(const BundleRequest &request) const { return step_text(program, request, "lines"); }
};

BundleRequest with_lines(BundleRequest request, const std::string &lines) {
    request.step.lines = lines, request.lines_from = "pasted.schedule";
    return request;
}

/// A plan without what decided its placements.
json without_reasons(const std::string &plan) {
    json j = json::parse(plan);
    for (json &calls : j["plans"])
        for (json &call : calls) {
            call.erase("why");
            for (json &stage : call["stages"]) stage.erase("why");
        }
    return j;
}

/// Sorted, without comments.
std::multiset<std::string> statements(const std::string &lines) {
    std::istringstream in(std::regex_replace(lines, std::regex(" *(//|#)[^\n]*"), ""));
    std::multiset<std::string> all;
    for (std::string line; std::getline(in, line);) all.insert(line);
    return all;
}

/// Where two texts differ first, for a message.
std::string difference(const std::string &a, const std::string &b) {
    const size_t at = size_t(std::ranges::mismatch(a, b).in1 - a.begin()), from = at < 150 ? 0 : at - 150;
    return a == b ? "" : a.substr(from, 300) + "\n    beside\n" + b.substr(from, 300);
}

/// The printed lines; with them, beside the flags, the plan is that of the flags.
std::string check_pasted(const std::string &app, const Flags &params, const StepConfig &step = {}) {
    const Asked asked(app);
    const BundleRequest given{.params = params, .step = step};
    const std::string lines = asked.lines(given);
    INFO(lines);
    CHECK(lines.starts_with("# The whole schedule of this step"));
    CHECK(lines.size() < 1 << 16);
    CHECK(difference(asked.plan(with_lines(given, lines)), asked.plan(given)) == "");
    return lines;
}

/// Also: they are printed again as they are, and without the flags that place things the plan is the same but for what
/// decided its placements.
std::string check_alone(const std::string &app, const Flags &params, const StepConfig &step = {}) {
    const std::string lines = check_pasted(app, params, step);
    const Asked asked(app);
    const BundleRequest given{.params = params, .step = step};
    BundleRequest pasted = with_lines(given, lines);
    INFO(lines);
    CHECK(statements(asked.lines(pasted)) == statements(lines));
    const StepConfig usual;
    pasted.step.update = usual.update, pasted.step.budget = usual.budget, pasted.step.head_rows = usual.head_rows;
    pasted.step.dialect = usual.dialect, pasted.step.tuned = usual.tuned;
    CHECK(difference(without_reasons(asked.plan(pasted)).dump(), without_reasons(asked.plan(given)).dump()) == "");
    return lines;
}

/// Bytes that a step may take, which are less than it does by a share of its activations.
uint64_t budget_of(const std::string &app, const Flags &params, double share) {
    int64_t bytes = 0;
    const Plan plan = step_plan(Asked(app).program, {.params = params});
    for (const auto &[role, n] : plan.memory()) bytes += n;
    return uint64_t(double(bytes) - share * double(plan.arena));
}

bool has(const std::string &lines, const std::string &line) {
    return ("\n" + lines).find("\n" + line) != std::string::npos;
}

}  // namespace

TEST_CASE("the whole schedule: as the program and the compiler have it, the same of all blocks as one line") {
    const std::string lines = check_pasted("gpt", gpt);
    CHECK(has(lines, "s.clear();\n"));
    CHECK(has(lines, "s(h.1.mlp.act).compute_with(h.1.mlp.c_fc);  // gpt.cpp:"));
    CHECK(has(lines, "s(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight));  // --update auto\n"));
    CHECK(has(lines, "s(next(h.*.ln_1.weight)).compute_root();  // the gradient is computed together with others"));
    CHECK(has(lines, "s.layout(h.*.mlp.c_fc.weight, panels("));
    CHECK(has(lines, "# loops(h.*.mlp.c_fc, forward): columns="));
    CHECK(!has(lines, "loops("));
}

TEST_CASE("the whole schedule: where updates are, and what else flags decide") {
    CHECK(has(check_alone("gpt", one_block, {.clip = 1, .update = "forward", .head_rows = 32}),
              "s(wte.transposed).compute_at(loss, 32);  // --head-rows 32\n"));
    CHECK(has(check_pasted("gpt", one_block, {.precision = "bf16", .update = "backward", .tuned = some_lines}),
              "loops(h.0.mlp.c_fc, forward): tiles_of_task=1;\n"));
}

TEST_CASE("the whole schedule: updates that share a kernel on a GPU") {
    for (const char *device : {"opencl", "cuda"}) {
        const std::string lines = check_alone("gpt", gpt, {.clip = 1, .device = device});
        CHECK(has(lines, "s(next(h.*.ln_1.weight)).compute_with(next(ln_f.bias));  // "));
        CHECK(has(lines, "s(next(ln_f.bias)).compute_root();  // "));
        CHECK(has(lines, "s(next(wte.weight)).compute_with(next(wpe.weight));  // "));
    }
    check_pasted("gpt", gpt, {.precision = "fp16", .update = "separate", .device = "cuda"});
}

TEST_CASE("the whole schedule: of a program without lines, those that were chosen") {
    CHECK(has(check_pasted("vision", small_resnet),
              "s(relu).compute_with(bn1.rescaled).where_legal();  // automatic: legal"));
}

TEST_CASE("the whole schedule: what a budget rematerialises, and what no line can say of it") {
    const std::string lines = check_pasted("gpt", gpt, {.budget = budget_of("gpt", gpt, 0.1)});
    CHECK(has(lines, "s.budget("));
    CHECK(lines.find(").store_at(forward);  // by the budget\n") != std::string::npos);
}

TEST_CASE("the whole schedule: a line that is refused is a comment, and the nearest legal line comes after it") {
    const Asked asked("gpt");
    const BundleRequest wrong = with_lines({.params = gpt}, "s(h.0.ln_2).compute_with(h.0.mlp.c_fc)");
    const ProcessResult r = asked.ask(wrong, {"--ir", "lines"});
    CHECK(r.status == 1);
    CHECK(has(r.output, "# s(h.0.ln_2).compute_with(h.0.mlp.c_fc);  // pasted.schedule:1:1: refused "
                        "[prologue-is-not-stored], the loops of 'h.0.mlp.c_fc' read it many times, and cannot store "
                        "it\ns(h.0.ln_2).compute_root();  // the nearest legal line\n"));
    asked.plan(with_lines(wrong, r.output));

    BundleRequest little = with_lines({.params = gpt}, "s.budget(10kB)");
    const std::string words = asked.ask(little, {"--ir", "lines"}).errors;
    std::smatch found;
    REQUIRE(std::regex_search(words, found, std::regex("the nearest legal line is (s\\.budget\\([0-9]+\\))")));
    asked.plan(with_lines(little, found[1]));
}

TEST_CASE("the whole schedule: GPT of 4 layers, with each place of its updates, clipped, in a budget, in bf16" *
          slow()) {
    for (const StepConfig &step :
         {StepConfig{}, StepConfig{.clip = 1}, StepConfig{.update = "backward"}, StepConfig{.update = "forward"},
          StepConfig{.update = "separate"}, StepConfig{.accumulate = 2, .clip = 1, .update = "backward"},
          StepConfig{.precision = "bf16"}, StepConfig{.precision = "fp16", .clip = 1, .update = "backward"},
          StepConfig{.head_rows = 96}, StepConfig{.group = "none"}, StepConfig{.dialect = "onednn"},
          StepConfig{.update = "backward", .dialect = "onednn"}, StepConfig{.workers = 2}, StepConfig{.parts = 4},
          StepConfig{.lines = "s.clear_loops()"}, StepConfig{.tuned = some_lines}, StepConfig{.freeze = "h.0.*"},
          StepConfig{.budget = budget_of("gpt", nano_gpt, 0.2)},
          StepConfig{.update = "backward", .budget = budget_of("gpt", nano_gpt, 0.5)}}) {
        CAPTURE(program_arguments(step));
        check_alone("gpt", nano_gpt, step);
    }
}

TEST_CASE("the whole schedule: the other programs" * slow()) {
    check_alone("llama", nano_llama);
    check_alone("llama", nano_llama, {.clip = 1, .update = "backward"});
    check_alone("llama", nano_llama, {.budget = budget_of("llama", nano_llama, 0.4)});
    check_alone("digits", {});
    check_alone("digits", {}, {.update = "backward"});
    check_alone("vision", {{"classes", "10"}, {"batch", "64"}});
    check_alone("vision", {{"classes", "10"}, {"transformer", "true"}, {"width", "64"}});
    check_alone("smollm2", {});
    const std::string lines = check_alone("smollm2", {}, {.budget = budget_of("smollm2", {}, 0.5)});
    CHECK(has(lines, "# the budget rematerialises, beside operators that no line can name: "));
}

}  // namespace cryolite::test
