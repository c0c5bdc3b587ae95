#pragma once
// The settings of a step as arguments of a generator program: those that a bundle depends on.

#include <deque>

#include <CLI/CLI.hpp>

#include "bundle/step_config.h"

namespace cryolite::compiler {

class StepArguments {
public:
    /// Adds an option for each row of the table.
    explicit StepArguments(CLI::App &app);
    /// Reads the values that were given, once the command line is parsed. Throws UsageError where a value is invalid.
    void read(StepConfig &config) const;

private:
    struct Given {
        const StepSetting *setting;
        CLI::Option *option;
        std::string text;
    };
    std::deque<Given> given_;  ///< a deque, because options point to the texts
};

}  // namespace cryolite::compiler
