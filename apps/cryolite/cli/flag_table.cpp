// The table of flags, and what a program adds to it.

#include <algorithm>

#include <fmt/ranges.h>

#include "apps/cryolite/session/settings.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr uint64_t largest_param = 1 << 24;  // as generator programs have it
constexpr uint64_t many = 1'000'000'000;

template <typename T, typename Of> std::function<ValueRef(TrainSettings &)> at(T Of::*member) {
    return [member](TrainSettings &s) -> ValueRef { return &(s.*member); };
}
template <typename T> std::function<ValueRef(TrainSettings &)> of_rate(T LearningRate::*member) {
    return [member](TrainSettings &s) -> ValueRef { return &(s.rate.*member); };
}

std::vector<Flag> step_flags() {
    std::vector<Flag> flags;
    for (const StepSetting &row : step_settings())
        if (row.flag.empty()) flags.push_back({row, {}, [&row](TrainSettings &s) { return row.of(s); }});
    return flags;
}

/// Flags of a run: no plan depends on them.
std::vector<Flag> run_flags() {
    const std::string step = "Step", schedule = "Schedule", run = "Run", folder = "Run folder", bench = "Bench",
                      search = "Search";
    constexpr unsigned trains = unsigned(Command::train), benches = unsigned(Command::bench);
    constexpr unsigned times = trains | benches, all = 127, searches = unsigned(Command::tune);
    constexpr unsigned writes = trains | unsigned(Command::compile) | unsigned(Command::exports);
    using S = TrainSettings;
    using enum OnResume;
    const WholeRange any{0, many};
    return {
        {{.name = "min-lr",
          .value = "RATE",
          .group = step,
          .help = "learning rate of the last step",
          .range = RealRange::not_negative,
          .on_resume = free,
          .otherwise = "the preset's, at most --lr; else lr / 10"},
         {.commands = times, .of_optimizer = true},
         of_rate(&LearningRate::low)},
        {{.name = "warmup",
          .value = "STEPS",
          .group = step,
          .help = "steps in which the rate rises",
          .range = any,
          .on_resume = free},
         {.commands = times},
         of_rate(&LearningRate::warmup)},
        {{.name = "threads",
          .value = "N",
          .group = schedule,
          .help = "threads of each worker",
          .range = WholeRange{1, 1024},
          .words = {{"all"}},
          .on_resume = free,
          .otherwise = "all cores that this process may use, divided among its workers"},
         {},
         at(&S::threads)},
        {{.name = "patience",
          .value = "TIME",
          .group = schedule,
          .help = "that a worker may give no sign of life before the run ends; 90s, 5m",
          .range = Setting::Seconds{},
          .on_resume = free},
         {.commands = times},
         at(&S::patience)},
        {{.name = "steps",
          .value = "N",
          .group = run,
          .help = "steps in all",
          .range = WholeRange{1, many},
          .on_resume = free,
          .otherwise = "train: 1000, or the preset's; bench: 20",
          .in_bench = false},
         {.commands = times},
         of_rate(&LearningRate::steps)},
        {{.name = "seed",
          .value = "N",
          .group = run,
          .help = "of the first weights and the order of the data",
          .range = WholeRange{0, ~uint64_t{0} >> 1},
          .on_resume = fixed},
         {.commands = times},
         at(&S::seed)},
        {{.name = "schedule",
          .value = "FILE",
          .group = schedule,
          .help = "lines of a step schedule, which replace the program's",
          .range = Setting::File{},
          .on_resume = free,
          .otherwise = "-"},
         {},
         at(&S::schedule)},
        {{.name = "data",
          .value = "FILE",
          .group = run,
          .help = "text, a token shard, a .csv/.csv.gz table, or a folder of images as MNIST's",
          .range = Setting::File{},
          .on_resume = by_content,
          .otherwise = "the embedded data"},
         {},
         at(&S::data)},
        {{.name = "val",
          .value = "FILE",
          .group = run,
          .help = "validation data",
          .range = Setting::File{},
          .on_resume = free,
          .otherwise = "a tenth of a text, a fifth of a table"},
         {.commands = trains},
         at(&S::validation)},
        {{.name = "order",
          .value = "ORDER",
          .group = run,
          .help = "random or sequential",
          .words = {{"random", 0}, {"sequential", 1}},
          .on_resume = fixed},
         {.commands = times},
         at(&S::sequential)},
        {{.name = "shift",
          .value = "PIXELS",
          .group = run,
          .help = "that an image is moved by at most, each way, when it is trained on",
          .range = WholeRange{0, 1000},
          .on_resume = fixed},
         {.commands = times, .of_rows = true},
         at(&S::shift)},
        {{.name = "flip",
          .value = "yes|no",
          .group = run,
          .help = "half of the images are mirrored, left to right, when they are trained on",
          .words = {{"no", 0}, {"yes", 1}},
          .on_resume = fixed},
         {.commands = times, .of_rows = true},
         at(&S::flip)},
        {{.name = "tokenizer",
          .value = "NAME",
          .group = run,
          .help = "char, gpt2, or the file tokenizer.json of a byte-level one",
          .range = Setting::File{},
          .words = {{"char"}, {"gpt2"}},
          .on_resume = fixed,
          .otherwise = "the preset's, else char"},
         {.of_text = true},
         at(&S::tokenizer)},
        {{.name = "init",
          .value = "FILE",
          .group = run,
          .help = "begin with these weights: a safetensors file, or a folder of Hugging Face's, whose sizes are taken",
          .range = Setting::File{},
          .on_resume = fixed,
          .otherwise = "-"},
         {.commands = times},
         at(&S::init)},
        {{.name = "rename",
          .value = "OLD=NEW",
          .group = run,
          .help =
              "parts, between dots, of names in --init: h=model.layers; several in their order, with commas between",
          .range = Setting::Text{},
          .words = {{"none"}},
          .on_resume = fixed,
          .list = ','},
         {.commands = times},
         at(&S::rename)},
        {{.name = "out",
          .value = "DIR",
          .group = folder,
          .help = "folder of the run, the bundle or the library",
          .range = Setting::File{},
          .on_resume = free,
          .otherwise = "runs/APP-DATE; compile and export: has to be given"},
         {.commands = writes, .recorded = false},
         at(&S::out)},
        {{.name = "resume",
          .group = folder,
          .help = "go on from the newest good checkpoint in --out",
          .range = Setting::Switch{},
          .on_resume = free},
         {.commands = trains, .recorded = false},
         at(&S::resume)},
        {{.name = "checkpoint-every",
          .value = "STEPS",
          .group = folder,
          .help = "0: only at the end",
          .range = any,
          .on_resume = free},
         {.commands = trains},
         at(&S::checkpoint_every)},
        {{.name = "give-up-after",
          .value = "N",
          .group = folder,
          .help = "stop when so many updates in a row were withheld, as a gradient was not finite; 0: never",
          .range = any,
          .on_resume = free},
         {.commands = trains},
         at(&S::give_up_after)},
        {{.name = "restarts",
          .value = "N",
          .group = folder,
          .help = "after a failure, go on from the newest checkpoint, so many times",
          .range = WholeRange{0, 1000},
          .on_resume = free},
         {.commands = trains, .in_file = false, .recorded = false},
         at(&S::restarts)},
        {{.name = "launch",
          .value = "COMMAND",
          .group = folder,
          .help = "starts the workers as processes: \"mpirun -n {workers}\"",
          .range = Setting::Text{},
          .on_resume = free,
          .otherwise = "-"},
         {.commands = trains, .in_file = false, .recorded = false},
         at(&S::launch)},
        {{.name = "keep",
          .value = "N",
          .group = folder,
          .help = "checkpoints to keep",
          .range = WholeRange{1, 1'000'000},
          .on_resume = free},
         {.commands = trains},
         at(&S::keep)},
        {{.name = "eval-every",
          .value = "STEPS",
          .group = folder,
          .help = "evaluate as often, and at the end; 0: never",
          .range = any,
          .on_resume = free},
         {.commands = trains},
         at(&S::eval_every)},
        {{.name = "evaluate-ema",
          .group = folder,
          .help = "evaluations are of the weights' averages (--ema)",
          .range = Setting::Switch{},
          .on_resume = free},
         {.commands = trains},
         at(&S::evaluate_ema)},
        {{.name = "save-ema",
          .group = folder,
          .help = "checkpoints have the weights' averages (--ema), too: model_ema.safetensors",
          .range = Setting::Switch{},
          .on_resume = fixed},
         {.commands = trains},
         at(&S::save_ema)},
        {{.name = "cache",
          .value = "DIR",
          .group = run,
          .help = "compiled kernels",
          .range = Setting::File{},
          .on_resume = free,
          .otherwise = "$XDG_CACHE_HOME/cryolite"},
         {.commands = all, .recorded = false},
         at(&S::cache)},
        {{.name = "json",
          .group = run,
          .help = "JSON lines on stdout, and nothing else there",
          .range = Setting::Switch{},
          .on_resume = free},
         {.recorded = false},
         at(&S::json)},
        {{.name = "preset",
          .value = "NAME",
          .group = "Model",
          .help = "a set of flags of the program",
          .range = Setting::Text{},
          .on_resume = fixed,
          .otherwise = "-"},
         {.commands = all, .recorded = false}},
        {{.name = "config",
          .value = "FILE",
          .group = run,
          .help = "read flags from a TOML file; the command line wins",
          .range = Setting::File{},
          .on_resume = free,
          .otherwise = "-"},
         {.commands = all, .in_file = false, .recorded = false}},
        {{.name = "trace",
          .value = "FILE",
          .group = run,
          .help = "what every thread does over time, for ui.perfetto.dev",
          .range = Setting::File{},
          .on_resume = free,
          .otherwise = "-"},
         {.commands = times, .recorded = false},
         at(&S::trace)},
        {{.name = "profile", .group = bench, .help = "the time of every kernel", .range = Setting::Switch{}},
         {.commands = benches, .in_file = false, .recorded = false},
         at(&S::profile)},
        {{.name = "ablate",
          .group = bench,
          .help = "every directive on and off, at 32, 64, 256 and 1024 rows",
          .range = Setting::Switch{}},
         {.commands = benches, .in_file = false, .recorded = false}},
        {{.name = "for",
          .value = "TIME",
          .group = search,
          .help = "how long to search: 90s, 15m, 1h",
          .range = Setting::Seconds{},
          .otherwise = "has to be given, but for --show, --export and --forget"},
         {.commands = searches, .in_file = false, .recorded = false},
         at(&S::search_seconds)},
        {{.name = "same-bits",
          .group = search,
          .help = "only what changes no bit of the training",
          .range = Setting::Switch{}},
         {.commands = searches, .in_file = false, .recorded = false},
         at(&S::same_bits)},
        {{.name = "show", .group = search, .help = "print what was found", .range = Setting::Switch{}},
         {.commands = searches, .in_file = false, .recorded = false},
         at(&S::show)},
        {{.name = "export",
          .value = "FILE",
          .group = search,
          .help = "write what was found as lines for --schedule",
          .range = Setting::File{},
          .otherwise = "-"},
         {.commands = searches, .in_file = false, .recorded = false},
         at(&S::export_lines)},
        {{.name = "forget", .group = search, .help = "train without it from now on", .range = Setting::Switch{}},
         {.commands = searches, .in_file = false, .recorded = false},
         at(&S::forget)},
        {{.name = "peers", .group = bench, .help = "the same work in PyTorch, interleaved", .range = Setting::Switch{}},
         {.commands = benches, .in_file = false, .recorded = false},
         at(&S::peers)},
    };
}

/// Numbers that any of the optimizers has, each once: the program's own optimizer speaks first.
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

}  // namespace

const std::vector<Flag> &flag_table() {
    static const std::vector<Flag> table = [] {
        std::vector<Flag> rows = step_flags(), more = run_flags();
        rows.insert(rows.end(), more.begin(), more.end());
        return rows;
    }();
    return table;
}

const Flag *find_flag(const std::string &name) {
    for (const Flag &flag : flag_table())
        if (flag.name == name) return &flag;
    return nullptr;
}

char list_mark(const std::string &name) {
    const Flag *flag = find_flag(name);
    return flag && flag->list ? flag->list : ',';
}

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
    const bool rate = n.name == "lr";  // a run may take another course
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

std::vector<Flag> all_flags(const ProgramDescription &program, const std::string &app) {
    std::vector<Flag> flags;
    auto add = [&](const char *what, Flag f) {
        if (std::ranges::any_of(flags, [&](const Flag &g) { return g.name == f.name; }) || (*what && find_flag(f.name)))
            fail_usage("the {} '{}' of {} has the name of a flag of cryolite; give it another", what, f.name,
                       app.empty() ? program.name : app);
        flags.push_back(std::move(f));
    };
    for (const auto &p : program.params) add("GeneratorParam", param_flag(p));
    for (Flag f : flag_table()) {
        const bool names_optimizer = f.name == "optimizer";
        if (names_optimizer) {
            f.range = Setting::Words{};
            for (const std::string &name : program.optimizer_names()) f.words.push_back({name});
            f.help = fmt::format("{}: {}", f.help, fmt::join(program.optimizer_names(), ", "));
        }
        add("", std::move(f));
        if (names_optimizer)
            for (Flag &n : number_flags(program)) add("Scalar", std::move(n));
    }
    return flags;
}

}  // namespace cryolite
