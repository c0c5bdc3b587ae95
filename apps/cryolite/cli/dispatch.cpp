// The command `cryolite`: one subcommand each, in the file of its name.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <system_error>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/cli/version.h"
#include "apps/cryolite/commands/cache/cache_command.h"
#include "apps/cryolite/endings/interrupt.h"
#include "runtime/collective/processes.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

struct Subcommand {
    const char *name, *about;
    int (*run)(const std::vector<std::string> &arguments);
};

int run_test(const std::vector<std::string> &) {
    fail_usage("the tests are built and run by the script: ./cryolite test");
}

// ./cryolite shows this table, too, where nothing is built yet (cmake/setup.sh reads it).
constexpr Subcommand subcommands[] = {
    {"train", "train a model", run_train},
    {"bench", "time training steps, also beside PyTorch", run_bench},
    {"tune", "search for a faster schedule of a training step", run_tune},
    {"sample", "generate text from a run", run_sample},
    {"explain", "show the plan of a training step", run_explain},
    {"compile", "compile a bundle into a folder, for an app", run_compile},
    {"export", "write a C library that trains a model without Cryolite", run_export},
    {"new", "write a small project of one's own", run_new},
    {"check", "check the gradients of every layer", run_check},
    {"fuzz", "compare random programs with what they should compute", run_fuzz},
    {"runs", "list and compare runs, check that a run's folder is whole", run_runs},
    {"cache", "look after the compiled kernels", run_cache},
    {"test", "build and run all tests, or those that match a PATTERN", run_test},
};

int dispatch(int argc, char **argv) {
    CLI::App app{"Cryolite: a Halide-based compiler and runtime for training neural networks.", "cryolite"};
    app.set_version_flag("--version", "cryolite " CRYOLITE_VERSION);
    app.require_subcommand(1);
    for (const Subcommand &c : subcommands) {
        // A subcommand reads its own flags, --help among them: some are known only to the program.
        CLI::App *sub = app.add_subcommand(c.name, c.about)->prefix_command();
        sub->set_help_flag();
    }
    read_line(app, {argv + 1, argv + argc}, "");
    for (const Subcommand &c : subcommands)
        if (CLI::App *sub = app.get_subcommand(c.name); sub->parsed()) return c.run(sub->remaining());
    return 0;
}

/// Prints the message. One of several processes then ends all of them. The other ranks wait a second, so that rank 0
/// prints an error that all have met.
int end_with(int status, const std::string &message = "") {
    Processes &all = known_processes();
    std::string who;
    if (all.rank() > 0) sleep(1), who = fmt::format(", rank {}", all.rank());
    if (!message.empty()) tell("cryolite{}: {}", who, message);
    if (all.size() > 1) all.abort(status);
    return status;
}

}  // namespace

int run_command(int argc, char **argv) {
    hold_standard_streams();
    watch_signals();
    try {
        const int status = dispatch(argc, argv);
        // What still waits in the buffer is a part of the result.
        if (std::fflush(stdout) != 0)
            throw std::system_error(errno, std::generic_category(), "cannot write to the standard output");
        leave_processes();
        return status;
    } catch (const CLI::Success &) {
        return 0;  // --help or --version, printed
    } catch (const Interrupted &) {
        return end_with(interrupted_status);
    } catch (const UsageError &e) {
        return end_with(2, e.what());
    } catch (const std::system_error &e) {
        // The reader of our output went away, as `head` does: the status is that of a program that SIGPIPE ends.
        if (e.code() == std::errc::broken_pipe) return end_with(128 + SIGPIPE);
        return end_with(1, e.what());
    } catch (const std::bad_alloc &) {
        return end_with(1, "there is not enough memory; use a smaller batch, context or model");
    } catch (const std::exception &e) {
        return end_with(1, e.what());
    }
}

}  // namespace cryolite
