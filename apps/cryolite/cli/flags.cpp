// Reads the command line into flags as text. The model's parameters are flags, too, but which they are is known only
// once the program is known. So the line is read twice.

#include "apps/cryolite/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include <fmt/ranges.h>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/cli/near_flags.h"
#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/cli/version.h"
#include "apps/cryolite/inputs/init_folder.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/session/settings.h"
#include "bundle/near_names.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

struct CommandText {
    const char *name, *about;
};
CommandText text_of(Command command) {
    switch (command) {
    case Command::train:
        return {"train", "Trains a model; without arguments: a small GPT on Tiny Shakespeare."};
    case Command::bench:
        return {"bench", "Times training steps: two untimed, then --steps."};
    case Command::compile:
        return {"compile", "Compiles the bundle of a training step into a folder: an app opens it by its name."};
    case Command::exports:
        return {"export", "Writes a C library that trains a model, without Cryolite."};
    case Command::tune:
        return {"tune",
                "Searches for faster loops and lines of the schedule of a training step; --tuned of train takes "
                "what is found."};
    case Command::check:
        return {"check",
                "Checks the gradients of every layer of a model against finite differences, on random numbers; with "
                "--data, also that the data fit the model."};
    default:
        return {"explain", "Shows the plan of a training step: kernels, stages, bytes, FLOPs."};
    }
}

/// The first reading of the line. It assumes that a flag that it does not know has a value.
struct FirstReading {
    std::map<std::string, std::string> flags;
    std::vector<std::string> words;
    bool help = false;

    explicit FirstReading(const std::vector<std::string> &line) {
        for (size_t i = 0; i < line.size(); i++) {
            if (line[i] == "-h" || line[i] == "--help" || line[i] == "--version")
                help = true;
            else if (!line[i].starts_with("-"))
                words.push_back(line[i]);
            else if (!line[i].starts_with("--"))
                continue;  // "-x": the second reading says that it is no flag
            else if (size_t at = line[i].find('='); at != std::string::npos)
                flags[line[i].substr(2, at - 2)] = line[i].substr(at + 1);
            else if (const Flag *f = find_flag(line[i].substr(2)); f && f->is_switch())
                flags[f->name] = "true";
            else if (line[i] == "--diff")
                i += 2;  // its two files
            else if (i + 1 < line.size())
                flags[line[i].substr(2)] = line[i + 1], i++;
        }
    }
    std::string get(const std::string &flag) const {
        auto at = flags.find(flag);
        return at == flags.end() ? "" : at->second;
    }
};

/// Gives the values that a file sets. `app` is a key, too, so that a run's own file names its program.
void give_file(Values &values, const fs::path &path, Origin origin) {
    for (auto &[name, given] : read_config(path, origin, list_mark)) {
        const Flag *flag = find_flag(name);
        if (flag && !flag->in_file) fail_usage("{}: {} cannot be set in a file", given.where, name);
        if (given.list && !(flag && flag->list))
            fail_usage("{}: {} must be a string, a number, true or false", given.where, shown(name));
        values.give(name, given);
    }
}

/// Refuses to resume a run with another app or preset than its own. A program of one's own may have moved.
void check_own(const FirstReading &first, const Values &own, const fs::path &run) {
    const std::string app = first.words.empty() ? "" : first.words[0], of_run = own.text("app");
    if (!app.empty() && !of_run.empty() && app != of_run && !(is_path(app) && is_path(of_run)))
        fail_usage("--resume: {} is a run of {}, not of {}: {}", run.string(), of_run, app, resume_command(run));
    const std::string preset = first.get("preset"), preset_of_run = own.text("preset");
    if (!preset.empty() && !preset_of_run.empty() && preset != preset_of_run)
        fail_usage("--preset is {}, but the run in {} was made with {}: leave it out", preset, run.string(),
                   preset_of_run);
}

/// Throws UsageError for a key of a file that is neither a flag nor a parameter of the model.
void check_keys(const Values &values, const ProgramDescription &program) {
    std::vector<NamedFlag> flags;
    for (const Flag &f : all_flags(program)) flags.push_back({f.name, f.help});
    for (auto &[name, given] : values.all())
        if (std::ranges::find(flags, name, &NamedFlag::name) == flags.end())
            fail_usage("{}: {} is not a flag of {}{}", given.where, shown(name), program.name,
                       flags_meant(name, flags));
}

/// What is read where --data is not given.
std::string data_words(const Request &r) {
    const ProgramDescription &program = r.program.description;
    const bool images = program.data == "fashion-mnist", numbers = program.targets == "numbers";
    const bool trains = r.command == Command::train || r.command == Command::exports;
    if (r.command == Command::check) return "nothing is read";
    if (r.command == Command::bench || r.command == Command::tune)
        return program.task == "tokens" ? "random tokens" : "random rows";
    if (!trains && (images || numbers)) return "nothing is read: they change nothing in the step";
    if (images) return "Fashion-MNIST, of Debian's package dataset-fashion-mnist";
    if (numbers) return "has to be given";
    return program.task == "tokens" ? "Tiny Shakespeare, embedded" : "digits of 8 x 8 pixels, embedded";
}

/// The values of flags that are not given, where they differ from the defaults in the table: those of the preset.
using Defaults = std::map<std::string, std::string>;
Defaults defaults_of(const Request &r, const std::string &preset) {
    Defaults defaults;
    defaults["data"] = data_words(r);
    for (auto &[name, flags] : r.program.description.presets)
        if (preset.empty() || preset == name) {
            for (auto &[flag, text] : flags)
                if (const Flag *row = find_flag(flag); r.command != Command::bench || !row || row->in_bench)
                    defaults[flag] = text + ", preset " + name;
            break;
        }
    return defaults;
}

/// "steps in all (2000, preset nano)"
std::string help_of(const Flag &flag, const Defaults &defaults) {
    std::string text = flag.otherwise;
    if (auto at = defaults.find(flag.name); at != defaults.end()) {
        text = at->second;
    } else if (text.empty() && flag.value_of && !flag.is_switch()) {
        TrainSettings plain;
        text = text_of(flag, flag.value_of(plain));
    }
    return text.empty() || text == "-" ? flag.help : fmt::format("{} ({})", flag.help, text);
}

/// The second reading: every flag is known now.
class Line {
public:
    Line(Request &request, const std::vector<std::string> &arguments, Defaults defaults)
        : request_(request),
          app_(text_of(request.command).about, fmt::format("cryolite {}", text_of(request.command).name)),
          defaults_(std::move(defaults)) {
        app_.set_version_flag("--version", "cryolite " CRYOLITE_VERSION);
        app_.add_option("APP", words_.emplace_back(),
                        fmt::format("gpt, llama, vision, digits or a .cpp of your own ({})", default_app));
        if (request.command == Command::explain) {
            app_.add_option("KERNEL", words_.emplace_back(), "show only kernels with this in their name");
            ir_ = app_.add_option("--ir", request.ir,
                                  "show the step after this pass of the compiler, or after each, and no plan")
                      ->type_name("[PASS]")
                      ->expected(0, 1);
            app_.add_option("--diff", request.diff,
                            "compare the steps of two files of schedule lines, A and B, kernel by kernel; nothing is "
                            "compiled")
                ->type_name("A B")
                ->expected(0, 2)  // `check_diff` refuses fewer
                ->allow_extra_args(false);
            app_.add_option("--html", html_, "a page of the step with pictures, which a browser opens")
                ->type_name("FILE");
        }
        for (const Flag &flag : all_flags(request.program.description, request.app))
            if (flag.taken_by(request.command)) add(flag);
        read(arguments);
    }

private:
    Request &request_;
    CLI::App app_;
    Defaults defaults_;
    std::deque<std::string> words_;
    std::map<std::string, std::string> texts_;
    std::map<std::string, bool> switches_;
    CLI::Option *ir_ = nullptr;
    std::string html_;

    void add(const Flag &flag) {
        const std::string name = "--" + flag.name,
                          help = flag.name == "preset" ? preset_help() : help_of(flag, defaults_);
        CLI::Option *option = flag.is_switch() ? app_.add_flag(name, switches_[flag.name], help)
                                               : app_.add_option(name, texts_[flag.name], help)->type_name(flag.value);
        option->group(flag.says_something_to(request_.command) ? flag.group : "")
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        if (flag.list) option->join(flag.list);
    }
    std::string preset_help() const {
        std::vector<std::string> names;
        for (auto &[name, flags] : request_.program.description.presets) names.push_back(name);
        if (names.empty()) return "a set of flags (this program has none)";
        return fmt::format("a set of flags: {} ({})", fmt::join(names, ", "), names[0]);
    }
    void read(const std::vector<std::string> &line) {
        read_line(app_, line, text_of(request_.command).name, [this] { refuse_extras(); });
        for (auto &[name, text] : texts_)
            if (app_.count("--" + name)) request_.values.give(name, {text, Origin::command_line});
        for (auto &[name, on] : switches_)
            if (on) request_.values.give(name, {"true", Origin::command_line});
        if (words_.size() > 1) request_.kernel = words_[1];
        request_.html = html_;
        if (request_.command == Command::explain && app_.count("--diff") > 0) check_diff();
        if (ir_ && ir_->count() && (request_.ir.empty() || request_.ir == "true")) request_.ir = "all";
    }
    void check_diff() const {
        if (!request_.kernel.empty())
            fail_usage("--diff compares two files of lines, kernel by kernel, and '{}' is none of them: leave it out",
                       request_.kernel);
        std::vector<std::string> files = request_.diff;
        std::erase(files, "");  // CLI11 gives an empty text if there is none
        if (files.size() == 2) return;
        fail_usage(
            "--diff compares two files of lines and was given {}: cryolite explain {} --diff A B; where one step "
            "is the program's own, `cryolite explain {} --ir lines > A` writes its lines",
            files.empty() ? "none" : fmt::format("one, {}", files[0]), request_.app, request_.app);
    }
    /// What a word too many may have meant: a preset, or a flag.
    std::string meant(const std::string &extra) const {
        for (auto &[name, flags] : request_.program.description.presets)
            if (extra == name) return fmt::format(" (did you mean --preset {}?)", name);
        std::vector<NamedFlag> flags;
        for (const CLI::Option *o : app_.get_options())
            if (!o->get_lnames().empty()) flags.push_back({o->get_lnames()[0], o->get_description()});
        return extra.starts_with("-") ? flags_meant(extra, flags) : "";
    }
    [[noreturn]] void refuse_extras() const {
        const std::string extra = app_.remaining().front();
        const auto is_extra = [&](const Flag &f) { return (extra + "=").starts_with("--" + f.name + "="); };
        if (request_.command == Command::check &&
            std::ranges::any_of(all_flags(request_.program.description), is_extra))
            fail_usage("{} is not a flag of check, which compares gradients with finite differences and trains "
                       "nothing: it takes the parameters of the model, and --data; see cryolite check {} --help",
                       shown(extra), request_.app);
        fail_usage("{} is not a flag of cryolite {} {}{}; see cryolite {} {} --help", shown(extra),
                   text_of(request_.command).name, request_.app, meant(extra), text_of(request_.command).name,
                   request_.app);
    }
};

}  // namespace

std::vector<std::string> idle_flag_notes(const Request &request) {
    std::vector<std::string> notes;
    for (const auto &[name, given] : request.values.all())
        if (const Flag *flag = find_flag(name);
            given.origin == Origin::command_line && flag && !flag->says_something_to(request.command))
            notes.push_back(fmt::format("note: --{} has no effect here: it is for training runs, and {} makes none",
                                        name, text_of(request.command).name));
    return notes;
}

std::string model_name(const Request &r) {
    const ProgramDescription &program = r.program.description;
    const auto preset = std::ranges::find(program.presets, r.preset, &decltype(program.presets)::value_type::first);
    std::vector<std::string> chosen;
    const bool known = !program.weights.config.written.empty();  // its --init has sizes of no preset
    for (const ProgramDescription::Param &p : program.params) {
        std::string usual = p.value;
        if (preset != program.presets.end() && preset->second.count(p.name)) usual = preset->second.at(p.name);
        if (r.values.chosen(p.name) && !(known && r.values.of_init(p.name)) && r.values.text(p.name) != usual)
            chosen.push_back(fmt::format("{} {}", p.name, r.values.text(p.name)));
    }
    const std::string name =
        r.preset.empty() || r.preset == program.name ? program.name : program.name + " " + r.preset;
    return chosen.empty() ? name : fmt::format("{} with {}", name, fmt::join(chosen, ", "));
}

std::string give_preset(Values &values, const ProgramDescription &program, const std::string &preset) {
    std::vector<std::string> names;
    for (auto &[name, flags] : program.presets) {
        names.push_back(name);
        if (preset.empty() || preset == name) {
            for (auto &[flag, text] : flags) values.give(flag, {text, Origin::preset, "preset " + name});
            return name;
        }
    }
    if (names.empty() && preset.empty()) return "";
    if (names.empty()) fail_usage("--preset {}: {} has no presets", preset, program.name);
    fail_usage("--preset is {}, expected {}{}", shown(preset), fmt::join(names, " or "), did_you_mean(preset, names));
}

Request read_request(Command command, const std::vector<std::string> &arguments) {
    Request r;
    r.command = command;
    const FirstReading first(arguments);
    if (!first.get("config").empty()) give_file(r.values, first.get("config"), Origin::config);
    fs::path resumed;  // the run whose own program goes on
    if (command == Command::train && !first.get("resume").empty() && !first.get("out").empty())
        if (const fs::path run = first.get("out"); is_run(run)) {
            Values own;
            give_file(own, run / "config.toml", Origin::resumed);
            check_own(first, own, run);
            for (auto &[name, given] : own.all()) r.values.give(name, given);
            if (first.words.empty() && r.values.text("app") == own.text("app")) resumed = run;
        }
    auto told = [&](const char *flag, const std::string &otherwise) {
        std::string text = first.get(flag);
        return text.empty() ? r.values.text(flag, otherwise) : text;
    };
    r.app = first.words.empty() ? r.values.text("app", default_app) : first.words[0];
    r.values.erase("app");
    const Cache cache(told("cache", ""));
    r.program = resumed.empty() ? find_program(r.app, cache) : program_of_run(resumed, r.app, cache);
    Line line(r, arguments, defaults_of(r, told("preset", "")));
    const std::string preset = r.values.text("preset"), of_init = preset_of_init(r);
    r.preset = give_preset(r.values, r.program.description, preset.empty() ? of_init : preset);
    give_init(r, !preset.empty() && preset != of_init);
    check_keys(r.values, r.program.description);
    return r;
}

}  // namespace cryolite
