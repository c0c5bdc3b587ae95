#pragma once
// The subcommands. `arguments`: what follows the subcommand's name. Each returns the exit status.

#include <string>
#include <vector>

namespace cryolite {

/// Runs the whole command. Returns the exit status, after it has printed what went wrong.
int run_command(int argc, char **argv);

int run_train(const std::vector<std::string> &arguments);
int run_bench(const std::vector<std::string> &arguments);
int run_sample(const std::vector<std::string> &arguments);
int run_explain(const std::vector<std::string> &arguments);
int run_fuzz(const std::vector<std::string> &arguments);
int run_runs(const std::vector<std::string> &arguments);
int run_compile(const std::vector<std::string> &arguments);
int run_new(const std::vector<std::string> &arguments);
int run_export(const std::vector<std::string> &arguments);
int run_tune(const std::vector<std::string> &arguments);
int run_check(const std::vector<std::string> &arguments);

}  // namespace cryolite
