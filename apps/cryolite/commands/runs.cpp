// cryolite runs: looks after the folders of runs.

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/report/overwrite.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/run_check.h"
#include "apps/cryolite/run/run_summary.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

/// Checks the folders of runs, and prints what is wrong. Returns whether all are whole.
bool verify(const std::vector<std::string> &folders) {
    bool whole = true;
    for (const std::string &folder : folders) {
        require_folder(folder);
        const RunCheck check = check_run(folder);
        for (const std::string &mistake : check.mistakes) fmt::print("{}: {}\n", folder, mistake);
        if (check.mistakes.empty())
            fmt::print("{}: whole: {} checkpoint{}, the newest of step {}\n", folder, check.checkpoints,
                       check.checkpoints == 1 ? "" : "s", check.newest->step);
        else if (check.newest)
            fmt::print("{}: not whole; {} goes on from step {}\n", folder, resume_command(folder), check.newest->step);
        else
            fmt::print("{}: not whole\n", folder);
        whole &= check.mistakes.empty();
    }
    return whole;
}

/// Columns as wide as their widest cell; the first one to the left, the others to the right.
void print_table(const std::vector<std::vector<std::string>> &rows) {
    std::vector<size_t> widths(rows.front().size());
    for (const auto &row : rows)
        for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    for (const auto &row : rows) {
        std::string text = fmt::format("{:<{}}", row[0], widths[0]);
        for (size_t c = 1; c < row.size(); ++c) text += fmt::format("  {:>{}}", row[c], widths[c]);
        fmt::print("{}\n", text);
    }
}

std::string shown_loss(const std::optional<double> &loss) { return loss ? fmt::format("{:.4f}", *loss) : "-"; }

std::optional<double> last_loss(const RunSummary &run) {
    if (run.losses.train.empty()) return {};
    return run.losses.train.back().loss;
}

/// " (20 batches)"; empty: all data were evaluated.
std::string batches_of_best(const RunSummary &run) {
    const double batches = run.losses.validation.empty() ? 0 : run.losses.validation.back().batches;
    return batches > 0 ? fmt::format(" ({:.0f} batch{})", batches, batches == 1 ? "" : "es") : "";
}

std::string shown_time(fs::file_time_type time) {
    const std::time_t t = std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(time));
    std::tm parts{};
    localtime_r(&t, &parts);
    char text[32];
    return std::string(text, std::strftime(text, sizeof text, "%F %R", &parts));
}

std::string to_json(const RunSummary &run) {
    nlohmann::ordered_json j = {{"run", run.path.string()},
                                {"app", run.value("app")},
                                {"step", run.step()},
                                {"steps", std::strtoull(run.value("steps").c_str(), nullptr, 10)}};
    if (const auto loss = last_loss(run)) j["loss"] = *loss;
    if (run.best_val_loss) j["best_val_loss"] = *run.best_val_loss;
    if (run.tok_s) j["tok_s"] = *run.tok_s;
    return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> cells(const RunSummary &run) {
    return {run.path.string(),
            fs::path(run.value("app")).lexically_normal().string(),
            fmt::format("{}/{}", run.step(), run.value("steps")),
            shown_loss(last_loss(run)),
            shown_loss(run.best_val_loss) + batches_of_best(run),
            run.tok_s ? fmt::format("{:.0f}", *run.tok_s) : "-",
            shown_time(run.changed)};
}

const std::vector<std::string> columns = {"run", "app", "steps", "loss", "best val", "tok/s", "changed"};

/// Whether the metrics of a run are whole; says what is wrong.
bool has_whole_metrics(const RunSummary &run) {
    if (run.damaged == 0) return true;
    tell("{}: {} line{} of metrics.jsonl {} not JSON: what is shown leaves {} out; see cryolite runs verify {}",
         run.path.string(), run.damaged, run.damaged == 1 ? "" : "s", run.damaged == 1 ? "is" : "are",
         run.damaged == 1 ? "it" : "them", run.path.string());
    return false;
}

/// Lists the runs in `folder`, or `folder` itself if it is a run, the newest first. Returns whether all can be read.
bool list(const fs::path &folder, bool json) {
    if (!is_there(folder))
        fail_usage("there is no folder {}: train makes runs/APP-DATE unless it gets --out", folder.string());
    if (std::error_code ignored; !fs::is_directory(folder, ignored) && fs::exists(folder, ignored))
        fail_usage("{} is a file, expected a folder of runs", folder.string());
    std::vector<RunSummary> runs;
    bool readable = true;
    std::vector<fs::path> found;
    if (is_run(folder))
        found.push_back(folder);
    else
        for (const auto &entry : fs::directory_iterator(folder))
            if (entry.is_directory() && is_run(entry.path())) found.push_back(entry.path());
    for (const fs::path &path : found) try {
            runs.push_back(summarize_run(path));
            readable &= has_whole_metrics(runs.back());
        } catch (const Error &e) {  // one damaged run hides no other
            readable = false;
            tell("{}", e.what());
        }
    std::ranges::sort(runs, std::ranges::greater{}, &RunSummary::changed);
    if (json) {
        for (const RunSummary &run : runs) fmt::print("{}\n", to_json(run));
        return readable;
    }
    if (runs.empty()) {
        fmt::print("no runs in {}\n", folder.string());
        return readable;
    }
    std::vector<std::vector<std::string>> rows = {columns};
    for (const RunSummary &run : runs) rows.push_back(cells(run));
    print_table(rows);
    return readable;
}

/// Prints how far runs have come and what differs in their configurations, and draws their curves in one picture.
/// Returns whether all of their metrics are whole.
bool compare(const std::vector<std::string> &folders, const fs::path &picture) {
    if (folders.size() < 2)
        fail_usage("runs compare takes two runs or more, as in cryolite runs compare runs/a runs/b");
    check_overwrite("out", picture, compare_heading, "picture of runs compare");
    std::vector<RunSummary> runs;
    std::vector<LossCurve> curves;
    std::set<std::string> flags;
    bool whole = true;
    for (const std::string &folder : folders) {
        runs.push_back(summarize_run(folder));
        whole &= has_whole_metrics(runs.back());
        curves.push_back({folder, runs.back().losses.train, runs.back().losses.validation});
        for (const auto &[flag, value] : runs.back().config) flags.insert(flag);
    }
    std::vector<std::vector<std::string>> rows = {columns};
    for (const RunSummary &run : runs) rows.push_back(cells(run));
    print_table(rows);
    std::vector<std::vector<std::string>> differ = {{"differs"}};
    for (const RunSummary &run : runs) differ[0].push_back(run.path.string());
    for (const std::string &flag : flags) {
        std::vector<std::string> row = {flag};
        for (const RunSummary &run : runs) row.push_back(run.config.contains(flag) ? run.value(flag) : "-");
        if (std::ranges::all_of(row.begin() + 2, row.end(), [&](const std::string &v) { return v == row[1]; }))
            continue;
        for (std::string &cell : row) cell = one_line(cell, 80);  // lines that differ further on are a row all the same
        differ.push_back(row);
    }
    fmt::print("\n");
    if (differ.size() > 1)
        print_table(differ);
    else
        fmt::print("their configurations do not differ\n");
    std::string title = fmt::format("{} runs", runs.size());
    if (runs.size() == 2) title = fmt::format("{} and {}", folders[0], folders[1]);
    write_file_atomic(picture, compare_svg(title, curves));
    fmt::print("\ntheir losses are in {}\n", picture.string());
    return whole;
}

}  // namespace

int run_runs(const std::vector<std::string> &arguments) {
    CLI::App app{"Lists and compares runs, and checks their folders.", "cryolite runs"};
    app.require_subcommand(1);
    std::vector<std::string> folders;
    CLI::App *check =
        app.add_subcommand("verify", "checks that a run's folder is whole: every file of every checkpoint, the "
                                     "result, the metrics; status 1 if anything is wrong. Changes nothing");
    check->add_option("DIR", folders, "the folder of a run")->required();
    std::string folder = "runs", picture = "compare.svg";
    bool json = false;
    CLI::App *ls = app.add_subcommand("ls", "lists the runs in a folder, the newest first");
    ls->add_option("DIR", folder, "where the runs are, or one of them (runs)");
    ls->add_flag("--json", json, "a JSON object a run");
    CLI::App *two = app.add_subcommand("compare", "what differs between runs, and their curves in one picture");
    two->add_option("DIR", folders, "the folders of two runs or more")->required();
    two->add_option("--out", picture, "the picture (compare.svg)")->type_name("FILE.svg");
    read_line(app, arguments, "runs");
    if (ls->parsed()) return list(folder, json) ? 0 : 1;
    if (two->parsed()) return compare(folders, picture) ? 0 : 1;
    return verify(folders) ? 0 : 1;
}

}  // namespace cryolite
