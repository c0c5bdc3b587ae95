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
    /// Once the line is parsed. Throws UsageError: a value that cannot be.
    void read(StepConfig &config) const;

private:
    struct Given {
        const StepSetting *setting;
        CLI::Option *option;
        std::string text;
    };
    std::deque<Given> given_;  ///< options refer to the texts
};

}  // namespace cryolite::compiler
