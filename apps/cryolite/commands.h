#pragma once
// The subcommands. `arguments`: what follows the subcommand's name. Each returns the exit status.

#include <string>
#include <vector>

namespace cryolite {

int run_train(const std::vector<std::string> &arguments);
int run_bench(const std::vector<std::string> &arguments);
int run_sample(const std::vector<std::string> &arguments);
int run_explain(const std::vector<std::string> &arguments);
int run_runs(const std::vector<std::string> &arguments);
int run_check(const std::vector<std::string> &arguments);

}  // namespace cryolite
