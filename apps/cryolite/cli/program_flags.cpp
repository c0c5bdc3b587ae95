// Flags that a program adds to the table: its model's parameters, its optimizers' numbers.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "apps/cryolite/cli/flags.h"
#include "runtime/io/error.h"

namespace cryolite {

constexpr uint64_t largest_param = 1 << 24;  // as generator programs have it

Flag param_flag(const ProgramDescription::Param &p) {
    const bool whole = p.type == "int", choice = p.type == "bool";
    constexpr double most = std::numeric_limits<float>::max();
    Flag f{{.name = p.name,
            .value = choice  ? "true|false"
                     : whole ? "N"
                             : "X",
            .group = "Model",
            .help = p.help,
            .otherwise = p.help.empty() ? "-" : p.value},
           {.commands = 127},
           {}};
    if (choice)
        f.words = {{"true"}, {"false"}};
    else if (whole)
        f.range = WholeRange{1, largest_param};
    else
        f.range = RealRange{-most, most};
    return f;
}

Flag number_flag(const ProgramDescription::Number &n) {
    const bool rate = n.name == "lr";  // a resumed run may change it
    return {{.name = n.name,
             .value = rate ? "RATE" : "X",
             .group = "Step",
             .help = n.help,
             .range = n.range,
             .on_resume = rate ? OnResume::free : OnResume::fixed,
             .otherwise = fmt::format("{}", n.value)},
            {.commands = 63 - 8 - 4, .of_optimizer = true},
            {}};
}

namespace {

/// Numbers that any of the optimizers has, each once. The program's own optimizer comes first, and its defaults count.
std::vector<Flag> number_flags(const ProgramDescription &program) {
    std::vector<Flag> flags;
    auto add = [&](const ProgramDescription::Rule &rule, bool own) {
        for (const ProgramDescription::Number &n : rule.numbers) {
            if (std::ranges::any_of(flags, [&](const Flag &f) { return f.name == n.name; })) continue;
            flags.push_back(number_flag(n));
            if (!own) flags.back().otherwise = fmt::format("{}: {}", rule.name, n.value);
        }
    };
    if (const auto *own = program.rule(program.optimizer)) add(*own, true);
    for (const ProgramDescription::Rule &rule : program.optimizers) add(rule, false);
    return flags;
}

/// What a flag of the command's own is for; empty: there is none of this name.
std::string help_of_taken(const std::string &name) {
    if (const Flag *f = find_flag(name)) return f->help;
    for (const auto &[other, help] : {std::pair{"help", "shows what flags there are"},
                                      {"version", "shows the version"},
                                      {"app", "the key of a file that names the program"},
                                      {"ir", "of explain, the step after a pass"},
                                      {"diff", "of explain, two files of lines"},
                                      {"html", "of explain, a page of the step"}})
        if (name == other) return help;
    return "";
}

}  // namespace

std::vector<Flag> all_flags(const ProgramDescription &program, const std::string &app) {
    std::vector<Flag> flags;
    auto add_own = [&](const std::string &what, Flag f) {
        if (const std::string help = help_of_taken(f.name); !help.empty())
            fail_usage("{}: {}", app.empty() ? program.name : app,
                       taken_name_words(fmt::format("the {} '{}'", what, f.name), f.name, help));
        flags.push_back(std::move(f));
    };
    for (const auto &p : program.params) add_own("GeneratorParam", param_flag(p));
    for (Flag f : flag_table()) {
        const bool names_optimizer = f.name == "optimizer";
        if (names_optimizer) {
            f.range = Setting::Words{};
            for (const std::string &name : program.optimizer_names()) f.words.push_back({name});
            f.help = fmt::format("{}: {}", f.help, fmt::join(program.optimizer_names(), ", "));
        }
        flags.push_back(std::move(f));
        if (names_optimizer)
            for (Flag &n : number_flags(program)) add_own("Scalar", std::move(n));
    }
    return flags;
}

}  // namespace cryolite
