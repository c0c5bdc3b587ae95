// cryolite runs: looks after the folders of runs.

#include <CLI/CLI.hpp>

#include "apps/cryolite/commands.h"
#include "apps/cryolite/refusals.h"
#include "apps/cryolite/run_check.h"
#include "runtime/error.h"

namespace cryolite {

namespace {

/// Whether all of them are whole.
bool verify(const std::vector<std::string> &folders) {
    bool whole = true;
    for (const std::string &folder : folders) {
        std::error_code error;
        if (is_there(folder) && !fs::is_directory(folder, error))
            fail_usage("{} is a file, expected the folder of a run", folder);
        if (!is_there(folder)) fail_usage("there is no run in {}: check the spelling", folder);
        const RunCheck check = check_run(folder);
        for (const std::string &mistake : check.mistakes) fmt::print("{}: {}\n", folder, mistake);
        if (check.mistakes.empty())
            fmt::print("{}: whole: {} checkpoint{}, the newest of step {}\n", folder, check.checkpoints,
                       check.checkpoints == 1 ? "" : "s", check.newest->step);
        else if (check.newest)
            fmt::print("{}: not whole; cryolite train --out {} --resume goes on from step {}\n", folder, folder,
                       check.newest->step);
        else
            fmt::print("{}: not whole\n", folder);
        whole &= check.mistakes.empty();
    }
    return whole;
}

}  // namespace

int run_runs(const std::vector<std::string> &arguments) {
    CLI::App app{"Looks after the folders of runs.", "cryolite runs"};
    app.require_subcommand(1);
    std::vector<std::string> folders;
    CLI::App *check =
        app.add_subcommand("verify", "checks that a run's folder is whole: every file of every checkpoint, the "
                                     "result, the metrics; status 1 if anything is wrong. Changes nothing");
    check->add_option("DIR", folders, "the folder of a run")->required();
    if (!arguments.empty() && !arguments[0].starts_with("-")) check_known("command of runs", arguments[0], app);
    try {
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::Success &e) {
        return app.exit(e);
    } catch (const CLI::ParseError &e) {
        refuse_line(e, "runs");
    }
    return verify(folders) ? 0 : 1;
}

}  // namespace cryolite
