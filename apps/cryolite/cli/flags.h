#pragma once
// The flags of train, bench, explain and check: one table, which is also the list of keys of a --config
// file.

#include <string>
#include <vector>

#include "apps/cryolite/cli/values.h"
#include "client/programs.h"

namespace cryolite {

enum class Command { train, bench, explain, check };

/// Whether a run that goes on has to have the value that it began with. The model's parameters are fixed.
enum class OnResume { fixed, free };

struct Flag {
    std::string name;
    std::string value;  ///< what --help calls its value; empty: a switch
    std::string group;
    std::string help;
    OnResume on_resume = OnResume::fixed;
    bool key = true;  ///< may stand in a configuration file
    bool list = false;  ///< several, separated by commas: it may be given again and again, a file has a list
};

/// All but the model's own parameters.
const std::vector<Flag> &flag_table();
/// Of flags that say something to `train` alone: the others take them, and their help leaves them out.
inline const std::string run_folder_group = "Run folder";
const Flag *find_flag(const std::string &name);

/// What was asked for, from all places, before it is understood.
struct Request {
    Command command = Command::train;
    std::string app, preset, kernel;
    std::string ir;  ///< of explain: after which pass of the compiler to show the step, or "all"; empty: it shows the plan
    Program program;
    Values values;  ///< flags and the model's parameters
};

/// Reads the command line (`arguments`: those after the subcommand), the configuration file and,
/// when resuming, the run's own, and finds the program, whose parameters become flags. Throws
/// UsageError; CLI::Success after printing --help or --version.
Request read_request(Command command, const std::vector<std::string> &arguments);

/// Gives the flags that a preset sets, empty: the first one, if the program has any. Returns its
/// name.
std::string give_preset(Values &values, const ProgramDescription &program,
                        const std::string &preset);

/// "gpt nano"
std::string model_name(const Request &request);

/// The candidate nearest to a mistyped word, as " (did you mean X?)"; empty when none is near.
std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates);

}  // namespace cryolite
