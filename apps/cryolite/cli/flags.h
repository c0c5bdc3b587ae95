#pragma once
// The flags of train, bench, explain and check: one table, which is also the list of keys of a --config
// file.

#include <functional>
#include <string>
#include <vector>

#include "apps/cryolite/cli/values.h"
#include "client/programs.h"

namespace cryolite {

/// Bits, so that a flag names several.
enum class Command : unsigned { train = 1, bench = 2, explain = 4, check = 8, compile = 16, exports = 32, tune = 64 };

struct TrainSettings;

struct FlagTraits {
    unsigned commands = 127 - 8;  ///< those that use it, and have it in their help; all but check
    bool in_file = true;          ///< may stand in a configuration file
    bool recorded = true;         ///< in the config.toml of a run
    bool of_optimizer = false;    ///< a preset's value is one for the program's own optimizer
    bool of_text = false;         ///< has no effect on a model that does not read text
    bool of_rows = false;         ///< has no effect on a model that does
};

struct Flag : Setting, FlagTraits {
    /// Where its value is kept; empty: it is the preset, a configuration's name, or a parameter of the model.
    std::function<ValueRef(TrainSettings &)> value_of = {};

    bool says_something_to(Command command) const { return commands & static_cast<unsigned>(command); }
    /// All commands except check accept a flag that only `train` uses, so that one file serves all of them.
    bool taken_by(Command command) const {
        return says_something_to(command) || (command != Command::check && says_something_to(Command::train));
    }
};

/// All flags except those that a program adds: a row for each setting of a step (bundle/step_config.h) and of a run.
const std::vector<Flag> &flag_table();
const Flag *find_flag(const std::string &name);
/// The character between the items of a list, for `read_config`: a comma, unless the flag says otherwise.
char list_mark(const std::string &name);

/// The flag of a parameter of the model, and of a number of its optimizers.
Flag param_flag(const ProgramDescription::Param &param);
Flag number_flag(const ProgramDescription::Number &number);
/// The table with what the program adds to it. Errors call the program `app`, as the user does.
/// Throws UsageError: a name that is taken.
std::vector<Flag> all_flags(const ProgramDescription &program, const std::string &app = "");

/// What was asked for, from all places, before it is understood.
struct Request {
    Command command = Command::train;
    std::string app, preset, kernel;
    std::string
        ir;  ///< of explain: after which pass of the compiler to show the step, or "all"; empty: it shows the plan
    std::vector<std::string> diff;  ///< of explain: two files of lines to compare; empty: it shows the plan
    fs::path html;                  ///< of explain: the file of a page; empty: none
    Program program;
    Values values;  ///< flags and the model's parameters
};

/// Reads the command line (`arguments`: those after the subcommand), the configuration file and,
/// when resuming, the run's own, and finds the program, whose parameters become flags. Throws
/// UsageError; CLI::Success after printing --help or --version.
Request read_request(Command command, const std::vector<std::string> &arguments);

/// Gives the flags that a preset sets, empty: the first one, if the program has any. Returns its
/// name.
std::string give_preset(Values &values, const ProgramDescription &program, const std::string &preset);

/// A note on each flag of the command line that is train's alone. Other commands take it, as one configuration file is
/// for all of them.
std::vector<std::string> idle_flag_notes(const Request &request);

/// "gpt nano", "gpt nano with layers 3, width 96": the program, its preset, and the parameters that differ from it.
std::string model_name(const Request &request);

}  // namespace cryolite
