#include "apps/cryolite/session/settings.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "apps/cryolite/session/usage.h"
#include "apps/cryolite/inputs/init_file.h"
#include "apps/cryolite/session/target_choice.h"
#include "bundle/near_names.h"
#include "dialects/dialect.h"
#include "runtime/collective/nccl/nccl_collective.h"
#include "runtime/collective/processes.h"
#include "runtime/device/make_device.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"

namespace cryolite {

fs::path TrainSettings::tokenizer_file() const {
    const fs::path own = out / "tokenizer.json", kept = is_there(own) ? own : out / "vocab.json";
    return resume && !is_there(tokenizer) && is_there(kept) ? kept : fs::path(tokenizer);
}

int TrainSettings::param(const std::string &name, int otherwise) const {
    auto at = params.find(name);
    if (at == params.end()) return otherwise;
    int value = otherwise;
    std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
    return value;
}

namespace {

/// The model's parameters, each checked; those that were not given stay at the program's default.
void read_params(TrainSettings &s, const Values &values, const ProgramDescription &program) {
    for (const auto &p : program.params) {
        const Flag flag = param_flag(p);
        uint64_t whole = 0;
        double real = 0;
        s.params[p.name] = p.value;
        if (!values.given(p.name)) continue;
        if (p.type == "int")
            values.read(flag, &whole), s.params[p.name] = std::to_string(whole);
        else if (p.type == "bool")
            values.read(flag, &s.params[p.name]);
        else
            values.read(flag, &real), s.params[p.name] = fmt::format("{}", float(real));
    }
    // More would not fit the 32-bit extents that kernels compute with.
    constexpr int64_t most = 1 << 24;
    if (const int64_t rows = int64_t(s.param("batch", 1)) * s.param("context", 1); rows > most)
        fail_usage("--batch {} x --context {} are {} tokens, expected at most {}; use --accumulate "
                   "for larger steps",
                   s.param("batch", 1), s.param("context", 1), rows, most);
}

/// Whether a given value counts. A preset's numbers are for the program's own optimizer.
bool uses(const Flag &flag, const Request &r, const std::string &optimizer) {
    if (r.values.chosen(flag.name)) return true;
    if (!r.values.given(flag.name) || (r.command == Command::bench && !flag.in_bench)) return false;
    return !flag.of_optimizer || optimizer == r.program.description.optimizer;
}

/// Reads all flags whose values are members of the settings.
void read_members(TrainSettings &s, const Request &r) {
    s.optimizer = r.program.description.optimizer;
    s.rate.steps = r.command == Command::bench ? 20 : 1000;
    s.rate.high = s.rate.low = NAN;
    for (const Flag &flag : all_flags(r.program.description)) {
        if (!s.text && flag.of_text && r.values.chosen(flag.name))
            fail_usage("--{} is for text; this model reads the rows of a table", flag.name);
        if (s.text && flag.of_rows && r.values.chosen(flag.name))
            fail_usage("--{} is for images; this model reads text", flag.name);
        if (flag.value_of && uses(flag, r, s.optimizer)) r.values.read(flag, flag.value_of(s));
    }
}

/// Reads the numbers of the optimizer, which says what each may be.
void read_numbers(TrainSettings &s, const Request &r) {
    const ProgramDescription &program = r.program.description;
    const ProgramDescription::Rule *rule = program.rule(s.optimizer);
    for (const ProgramDescription::Rule &other : program.optimizers)
        for (const ProgramDescription::Number &n : other.numbers) {
            const auto at = r.values.all().find(n.name);
            if (at == r.values.all().end() || (rule && rule->find(n.name))) continue;
            // A preset is for the program's own optimizer. Of a resumed run, the changed optimizer is refused later.
            if (at->second.origin == Origin::preset || at->second.origin == Origin::resumed) continue;
            const std::string where = at->second.where.empty() ? "" : fmt::format(" ({})", at->second.where);
            fail_usage("--{} was given{}, but the optimizer {} has no such number; leave it out", n.name, where,
                       s.optimizer);
        }
    if (!rule) return;
    for (const ProgramDescription::Number &n : rule->numbers) {
        double &value = n.name == "lr" ? s.rate.high : s.numbers[n.name];
        value = n.value;
        if (const Flag flag = number_flag(n); uses(flag, r, s.optimizer)) r.values.read(flag, &value);
    }
}

/// Without --min-lr, the last rate of a run is a tenth of --lr. It is never above --lr.
void bound_rate(TrainSettings &s, const Values &v) {
    if (std::isnan(s.rate.low)) s.rate.low = s.rate.high / 10;
    if (!(s.rate.low > s.rate.high)) return;
    // A --lr of a stronger place, such as the command line of a resume, lowers the --min-lr of a weaker one.
    if (v.chosen("min-lr") && !(v.given("lr") && v.stronger("lr", "min-lr")))
        v.refuse("min-lr", fmt::format("at most --lr, {}", s.rate.high));
    s.rate.low = s.rate.high;
}

/// Makes the path of a tokenizer's file absolute, as a run keeps it.
void set_tokenizer(TrainSettings &s, const Values &v) {
    if (s.tokenizer == "char" || s.tokenizer == "gpt2") return;
    if (!s.tokenizer.ends_with(".json"))
        v.refuse("tokenizer", "char, gpt2 or the path of a tokenizer.json or a run's vocab.json" +
                                  did_you_mean(s.tokenizer, {"char", "gpt2"}));
    s.tokenizer = fs::absolute(s.tokenizer).string();
}

/// Sets the memory budget, if --recompute is a number of bytes.
void set_budget(TrainSettings &s) {
    if (s.recompute != "auto" && s.recompute != "none") s.budget = bytes_of(s.recompute).value();
}

/// Throws where the name of a file is given in place of lines.
void refuse_file(const std::string &flag, const std::string &lines) {
    std::error_code e;
    if (lines.find('(') == std::string::npos && (lines.ends_with(".schedule") || fs::is_regular_file(lines, e)))
        fail_usage("--{} is {}, expected lines of a step schedule: --schedule takes a file of them", flag,
                   shown(lines));
}

}  // namespace

/// What the lines say is checked by the program.
void read_lines(TrainSettings &s, const std::string &flag) {
    constexpr size_t most = 1 << 16;  // the lines are an argument of the program
    try {
        if (!s.schedule.empty()) s.lines = read_file(s.schedule);
    } catch (const Error &e) {
        const bool lines = flag == "--schedule" && s.schedule.string().find('(') != std::string::npos;
        throw UsageError(fmt::format("{}: {}{}", flag, e.what(), lines ? "; --lines takes lines without a file" : ""));
    }
    if (s.lines.starts_with("\xef\xbb\xbf")) s.lines.erase(0, 3);  // some editors mark a file as UTF-8 by these bytes
    if (s.schedule.empty()) refuse_file("lines", s.lines);
    const std::string what = s.lines.find_first_not_of(" \t\r\n") == std::string::npos ? "it is empty"
                             : s.lines.size() > most ? fmt::format("it has {}", human_bytes(s.lines.size()))
                             : s.lines.find('\0') != std::string::npos || first_not_utf8(s.lines) != std::string::npos
                                 ? "it is not UTF-8"
                                 : "";
    if (!what.empty())
        fail_usage("{}: {}, expected lines of a step schedule as text, {} at most",
                   s.schedule.empty() ? "--lines" : flag + " " + s.schedule.string(), what, human_bytes(most));
}

namespace {

/// Of --schedule and --lines, the one from the stronger place gives the lines.
void choose_lines_source(TrainSettings &s, const Values &v) {
    if (!v.given("lines")) return;
    if (const std::string &where = v.all().at("lines").where; !where.empty())
        s.lines_from = "lines in " + where.substr(0, where.rfind(", line"));
    if (!v.given("schedule")) return;
    if (v.stronger("lines", "schedule"))
        s.schedule.clear();
    else if (!v.stronger("schedule", "lines"))
        v.refuse("lines", "none, since --schedule gives lines too: leave out one of the two");
}

/// The default of --tuned. A resumed run keeps the lines that it began with; if it recorded none, it has none. Lines
/// that a search found are for this processor.
void set_tuned(TrainSettings &s, const Request &r) {
    const bool looks = r.command != Command::check && r.command != Command::tune && !s.resume;
    const bool here = targets_of(s.target)->front()->name == "host";
    if (!r.values.given("tuned")) s.tuned = looks && here && !s.deterministic ? "auto" : "none";
    if (s.tuned != "auto" && s.tuned != "none") refuse_file("tuned", s.tuned);
}

/// The target, the dialect and the device that are named have to be available before anything is compiled.
void check_machine(const TrainSettings &s, Command command) {
    if (const std::string why = why_not(s); !why.empty()) fail_usage("{}", why);
    if (find_dialect(s.dialect) && !load_dialect(s.dialect))
        fail_usage("--dialect {}: this build does not have it; {}", s.dialect, how_to_get(s.dialect));
    check_target(s, command);
    if (command != Command::train && command != Command::bench) return;
    if (find_dialect(s.dialect))
        if (const std::string missing = load_dialect(s.dialect)->missing(); !missing.empty())
            fail_usage("--dialect {}: {}", s.dialect, missing);
    usage_errors("", [&] {
        check_device(s.device);
        if (s.device == "cuda" && s.workers > 1) check_nccl();
    });
}

/// Under mpirun every process is a worker.
void set_workers(TrainSettings &s, const Values &v) {
    const int ranks = known_processes().size();
    if (ranks == 1) return;
    if (auto at = v.all().find("workers");
        s.workers > 1 && at != v.all().end() && at->second.origin == Origin::command_line)
        fail_usage(
            "--workers {} under mpirun: each of its {} processes is one worker; leave it out, or start more of them",
            s.workers, ranks);
    s.workers = ranks;
}

/// Every worker has an equal part of a micro-batch.
void check_workers(const TrainSettings &s) {
    if (s.workers == 1) return;
    const std::string workers = known_processes().size() > 1 ? fmt::format("the {} processes of mpirun", s.workers)
                                                             : fmt::format("--workers {}", s.workers);
    if (!s.params.count("batch")) fail_usage("{}: the model has no parameter 'batch' to divide among workers", workers);
    if (const int batch = s.param("batch", 1); batch % s.workers != 0)
        fail_usage("--batch {} is not divisible by {}: it counts {} over all workers, an equal part for each", batch,
                   workers, s.text ? "sequences" : "rows");
}

/// Sets how many parts --deterministic cuts a batch into, whatever the number of workers. Each worker has equally many.
void set_parts(TrainSettings &s) {
    if (!s.deterministic) return;
    if (!s.params.count("batch"))
        fail_usage("--deterministic cuts the batch into parts, but the model has no parameter 'batch': leave it out");
    const int batch = s.param("batch", 1);
    s.parts = std::gcd(batch, most_batch_parts);
    if (s.parts % s.workers == 0) return;
    fail_usage("--deterministic cuts --batch {} into {} parts, a power of two, which {} workers cannot share "
               "equally: use a power of two of workers, {} at most, or a --batch that a larger power of two divides",
               batch, s.parts, s.workers, s.parts);
}

void check_run(const TrainSettings &s, const Values &v) {
    if (!s.launch.empty() && s.launch.find("{workers}") == std::string::npos)
        v.refuse("launch", "a command with {workers} in place of their number, such as \"mpirun -n {workers}\"");
    if (known_processes().size() > 1 && (s.restarts > 0 || !s.launch.empty()))
        fail_usage("--restarts and --launch start the processes themselves: leave out mpirun, and run cryolite train "
                   "--workers {} --restarts N --launch \"mpirun -n {{workers}}\"",
                   known_processes().size());
    if (s.sequential && !s.text) fail_usage("--order sequential is for tokens; this model reads the rows of a table");
    for (auto [flag, given] : {std::pair{"evaluate-ema", s.evaluate_ema}, {"save-ema", s.save_ema}})
        if (given && !s.averages())
            fail_usage("--{} needs --ema DECAY, as 0.999: without it no average of the weights is kept", flag);
    if (s.resume && s.out.empty()) fail_usage("--resume needs --out DIR, the folder of the run to go on with");
}

}  // namespace

TrainSettings understand(const Request &r) {
    TrainSettings s;
    s.app = r.app, s.preset = r.preset;
    s.text = r.program.description.task == "tokens", s.numbers_wanted = r.program.description.targets == "numbers";
    read_params(s, r.values, r.program.description);
    read_members(s, r);
    read_numbers(s, r);
    bound_rate(s, r.values);
    set_tokenizer(s, r.values);
    set_budget(s);
    choose_lines_source(s, r.values);
    read_lines(s);
    set_tuned(s, r);
    set_workers(s, r.values);
    check_machine(s, r.command);
    check_workers(s);
    set_parts(s);
    check_run(s, r.values);
    check_renames(s);
    if (r.command == Command::train) check_names(s);
    return s;
}

void for_each_setting(const TrainSettings &settings, const std::function<void(const Flag &, ValueRef)> &visit) {
    TrainSettings s = settings;
    for (auto &[name, text] : s.params) visit(param_flag({name, "float", text, ""}), &text);
    for (const Flag &flag : flag_table())
        if (flag.recorded && flag.value_of && !(s.text ? flag.of_rows : flag.of_text)) visit(flag, flag.value_of(s));
    if (!std::isnan(s.rate.high)) visit(number_flag({"lr", 0, {}, ""}), &s.rate.high);
    for (auto &[name, value] : s.numbers) visit(number_flag({name, 0, {}, ""}), &value);
}

std::map<std::string, std::string> flags_of(const TrainSettings &s) {
    std::map<std::string, std::string> texts;
    for_each_setting(s, [&](const Flag &flag, ValueRef value) {
        if (flag.on_resume != OnResume::by_content) texts[flag.name] = text_of(flag, value);
    });
    return texts;
}

}  // namespace cryolite
