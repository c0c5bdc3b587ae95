#include "apps/cryolite/session/step_questions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cryolite/run/work_folder.h"
#include "bundle/plan_json.h"
#include "client/user_program.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// Runs a program with a question about its step, `argv`, and returns what it wrote. `shows`: what it wrote before it
/// refused the step is printed.
ProcessResult ask_of_step(const Program &program, const BundleRequest &request, std::vector<std::string> argv,
                          bool shows = false) {
    if (program.path.empty())
        fail("{}: the step as the compiler sees it is shown by its program, and this build has no compiler: use one "
             "that has (./cryolite)",
             program.app);
    argv.insert(argv.begin(), program.path.string());
    ProcessOptions options{.argv = std::move(argv),
                           .program = descriptor_of(program),
                           .time_limit = program_time_limit(),
                           .memory_limit = memory_share(1)};
    add_request(options.argv, request);
    ProcessResult result = run_process(options);
    if (!result.ok() && shows) fmt::print("{}", result.output);
    throw_refusal(result);
    if (!result.ok())
        fail("{} did not show its step: {}. Its last words:\n{}", program.app, how_it_ended(result),
             last_words(result));
    return result;
}

}  // namespace

Plan step_plan(const Program &program, const BundleRequest &request) {
    const WorkFolder work("cryolite-plan");
    const fs::path file = work.path / "plan.json";
    ask_of_step(program, request, {"--plan-only", file.string()});
    return read_plan(read_file(file), "plan.json");
}

std::vector<TensorSpec> model_weights(const Program &program, const BundleRequest &request) {
    std::vector<TensorSpec> weights;
    for (const json &w : json::parse(ask_of_step(program, request, {"--weights"}).output))
        weights.push_back({w.at("name"), Dtype::f32, w.at("shape").get<TensorShape>()});
    return weights;
}

int64_t kernel_temporaries(const Program &program, const BundleRequest &request, const Cache &cache) {
    const WorkFolder work("cryolite-temporaries");
    const fs::path file = work.path / "temporaries.json";
    const CacheLock kernels = cache.lock_kernels(true);
    ask_of_step(program, request, {"--temporaries", file.string(), "--store", cache.kernels().string()});
    int64_t most = 0;
    const json by_kernel = json::parse(read_file(file));
    for (const auto &[key, bytes] : by_kernel.items()) most = std::max(most, bytes.get<int64_t>());
    return most;
}

std::string step_text(const Program &program, const BundleRequest &request, const std::string &pass) {
    return ask_of_step(program, request, {"--ir", pass}, true).output;
}

namespace {

std::optional<FittingWay> way_of(const json &j) {
    if (j.is_null()) return std::nullopt;
    return FittingWay{j.at("update"), j.at("budget"), j.at("head_rows"), j.at("bytes")};
}

StepFit parse_fit(const json &j) {
    return {j.at("roles").get<std::map<std::string, int64_t>>(),
            j.at("largest"),
            j.at("fits"),
            way_of(j.at("way")),
            way_of(j.at("advice")),
            j.at("least")};
}

}  // namespace

StepFit fit_step(const Program &program, const BundleRequest &request, const FitQuestion &question) {
    ProcessOptions options{.argv = {program.path, "--fit", std::to_string(question.bytes), "--staging",
                                    std::to_string(question.staging), "--replicas", std::to_string(question.replicas)},
                           .program = descriptor_of(program),
                           .silence_limit = 1.5 * program_time_limit(),
                           .memory_limit = memory_share(1)};
    if (question.update) options.argv.insert(options.argv.end(), {"--open", "update"});
    if (question.recompute) options.argv.insert(options.argv.end(), {"--open", "recompute"});
    add_request(options.argv, request);
    json answer;
    options.on_line = [&](std::string_view line) {
        const json j = json::parse(line, nullptr, false);
        const bool known = j.is_object() && (j.contains("fit") || j.contains("phase"));
        if (!known) tell("{}", line);  // the user's own program printed it
        if (known && j.contains("fit")) answer = j["fit"];
        return known;
    };
    const ProcessResult result = run_process(options);
    throw_refusal(result);
    try {
        if (result.ok()) return parse_fit(answer);
    } catch (const json::exception &) {
    }
    fail("{} did not say what its step takes: {}. Its last words:\n{}", program.app, how_it_ended(result),
         last_words(result));
}

}  // namespace cryolite
