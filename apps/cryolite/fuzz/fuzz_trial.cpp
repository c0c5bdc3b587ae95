#include "apps/cryolite/fuzz/fuzz_trial.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "apps/cryolite/fuzz/fuzz_training.h"
#include "runtime/system/process.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr double trial_limit = 900;  // seconds for a child: few are usual, but a busy machine takes many

/// A reason without the names in it: "'...' reads it too, in another kernel, so it must be stored".
std::string reason_in(const std::string &words) {
    static const std::regex names("'[^']*'"), numbers("[0-9]+");
    const size_t from = words.find(" is refused: ");
    std::string reason = from == std::string::npos ? words : words.substr(from + 13);
    reason = reason.substr(0, reason.find_first_of(";\n"));
    return std::regex_replace(std::regex_replace(reason, names, "'...'"), numbers, "N");
}

std::string ending(const ProcessResult &r) {
    return (r.told_why() ? "" : how_it_ended(r) + "\n") + last_lines(r.errors, 4000);
}

}  // namespace

std::vector<std::string> FuzzTrials::model_arguments(const FuzzCase &c, int batch) const {
    std::vector<std::string> argv = {program_};
    auto add = [&](const std::string &name, const std::string &value) {
        argv.insert(argv.end(), {"--param", name + "=" + value});
    };
    add("choices", choices_text(c.choices)), add("kind", std::to_string(c.kind)), add("batch", std::to_string(batch));
    add("context", std::to_string(c.context)), add("vocab", std::to_string(c.vocab));
    add("columns", std::to_string(c.columns));
    return argv;
}

/// Compiles a case, and leaves out lines that are refused. Returns what went wrong; empty: nothing.
std::string FuzzTrials::compile(FuzzCase &c, const fs::path &bundle, int64_t budget) {
    for (;;) {
        fs::remove_all(bundle);
        ProcessOptions options{.argv = model_arguments(c, c.micro_batch()), .time_limit = trial_limit};
        if (!c.without.empty())
            options.argv.insert(options.argv.end(), {"--param", fmt::format("without={}", fmt::join(c.without, "."))});
        StepConfig step = c.step;
        step.budget = uint64_t(budget);
        const std::vector<std::string> asked = program_arguments(step);
        options.argv.insert(options.argv.end(), asked.begin(), asked.end());
        options.argv.insert(options.argv.end(), {"--bundle", bundle, "--store", folder_ / "kernels"});
        options.on_line = [](std::string_view) { return true; };
        const ProcessResult r = run_process(options);
        if (r.ok()) return "";
        if (!r.told_why() || !refuse(c, budget, r.errors)) return "it is not compiled: " + ending(r);
    }
}

/// Whether a message refuses a line or a budget. If so, this is taken out of the case.
bool FuzzTrials::refuse(FuzzCase &c, int64_t &budget, const std::string &words) {
    static const std::regex line("line ([0-9]+): s[.(]");
    std::smatch found;
    const bool refused = words.find(" is refused: ") != std::string::npos;
    if (refused && std::regex_search(words, found, line)) {
        const int number = std::stoi(found[1]);
        if (std::ranges::count(c.without, number)) return false;
        c.without.push_back(number);
    } else if (words.find("the step schedule fuses") != std::string::npos && c.without.size() < 255) {
        c.without.clear();  // several lines together are refused: all lines go
        for (int n = 1; n <= 255; n++) c.without.push_back(n);
    } else if (words.find("does not fit into") != std::string::npos && budget) {
        c.memory = 0, budget = 0;
    } else {
        return false;
    }
    refused_[reason_in(words)]++;
    return true;
}

/// The budget in bytes: the memory of the step without a budget, which is run first, less a share of its activations.
int64_t FuzzTrials::budget_of(const FuzzCase &c) {
    if (!c.memory) return 0;
    FuzzCase whole = c;
    whole.memory = 0;
    const std::string key = text_of(whole);
    if (!memory_.count(key)) {
        const FuzzVerdict v = run(whole);
        if (!v.finding.empty()) return 0;  // it will fail without a budget as well
        memory_[key] = {v.bytes, v.arena};
    }
    const auto [bytes, arena] = memory_.at(key);
    return std::max<int64_t>(1, bytes - arena * c.memory / 100);
}

const std::string &FuzzTrials::reference(const FuzzCase &c, const std::string &initial) {
    ProcessOptions options{.argv = model_arguments(c, c.examples), .time_limit = trial_limit};
    StepConfig step{.clip = c.step.clip, .optimizer = c.step.optimizer, .freeze = c.step.freeze};
    const std::vector<std::string> asked = program_arguments(step);
    options.argv.insert(options.argv.end(), asked.begin(), asked.end());
    json given = json::parse(job_of(c));
    given["parameters"] = json::parse(initial);
    const std::string key = fmt::format("{}", fmt::join(options.argv, " ")) + given.dump();
    if (auto known = references_.find(key); known != references_.end()) return known->second;
    const fs::path file = folder_ / "job.json";
    write_file_atomic(file, given.dump());
    options.argv.insert(options.argv.end(), {"--reference", file});
    const ProcessResult r = run_process(options);
    if (!r.ok()) fail("the reference of {} fails: {}", text_of(c), ending(r));
    if (references_.size() > 64) references_.clear();
    return references_[key] = r.output;
}

FuzzVerdict FuzzTrials::run(FuzzCase c) {
    FuzzVerdict verdict;
    const int64_t budget = budget_of(c);
    const fs::path bundle = folder_ / "bundle";
    verdict.finding = compile(c, bundle, budget);
    verdict.made = c;
    if (!verdict.finding.empty()) return verdict;
    const ProcessResult r =
        run_process({.argv = {self_, "fuzz", "--case", text_of(c), "--train", bundle}, .time_limit = trial_limit});
    if (!r.ok()) return verdict.finding = "training fails: " + ending(r), verdict;
    const json trained = json::parse(r.output);
    // The reference withholds no update: where a gradient overflows, the scale of the loss is too large to compare.
    if (trained.at("withheld") > 0 && c.step.scales_loss() && c.step.loss_scale > 1) {
        c.step.loss_scale = std::max(1.0, c.step.loss_scale / 16);
        return run(c);
    }
    verdict.bytes = trained.at("bytes"), verdict.arena = trained.at("arena");
    const json expected = json::parse(reference(c, trained.at("initial").dump()));
    verdict.distance = distance_of(trained, expected, c.step);
    FuzzDistance allowed = tolerance_of(c.step);
    allowed.losses *= tolerance, allowed.weights *= tolerance;
    verdict.finding = too_far(verdict.distance, allowed);
    return verdict;
}

std::string FuzzTrials::program_of(const FuzzCase &c) const {
    std::vector<std::string> argv = model_arguments(c, c.micro_batch());
    argv.insert(argv.begin() + 1, "--print");
    if (!c.without.empty()) argv.insert(argv.end(), {"--param", fmt::format("without={}", fmt::join(c.without, "."))});
    const ProcessResult r = run_process({.argv = argv, .time_limit = trial_limit});
    return r.ok() ? r.output : "// it cannot be printed: " + ending(r) + "\n";
}

}  // namespace cryolite
