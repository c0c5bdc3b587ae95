#include "apps/cryolite/session/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dialects/dialect.h"
#include "runtime/collective/processes.h"
#include "runtime/io/error.h"

namespace cryolite {

int TrainSettings::param(const std::string &name, int otherwise) const {
    auto at = params.find(name);
    if (at == params.end()) return otherwise;
    int value = otherwise;
    std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
    return value;
}

namespace {

constexpr uint64_t largest_param = 1 << 24;  // as generator programs have it

/// The model's parameters, each checked; those that were not given stay at the program's default.
void read_params(TrainSettings &s, const Values &values, const ProgramDescription &program) {
    for (const auto &p : program.params) {
        s.params[p.name] = p.value;
        if (!values.given(p.name)) continue;
        if (p.type == "int") {
            s.params[p.name] = std::to_string(values.whole(p.name, 1, largest_param, 1));
        } else {
            float value = 0;
            const std::string text = values.text(p.name);
            auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value))
                values.refuse(p.name, "a finite number");
            s.params[p.name] = fmt::format("{}", value);
        }
    }
    if (const int width = s.param("width", 0), heads = s.param("heads", 1); width % heads != 0)
        fail_usage(
            "--width {} is not divisible by --heads {}: every head has width / heads channels",
            width, heads);
    // More would not fit the 32-bit extents that kernels compute with.
    if (const int64_t rows = int64_t(s.param("batch", 1)) * s.param("context", 1);
        rows > int64_t(largest_param))
        fail_usage("--batch {} x --context {} are {} tokens, expected at most {}; use --accumulate "
                   "for larger steps",
                   s.param("batch", 1), s.param("context", 1), rows, largest_param);
}

void read_step(TrainSettings &s, const Request &r) {
    const Values &v = r.values;
    const ProgramDescription &program = r.program.description;
    const bool bench = r.command == Command::bench;
    s.accumulate = int(v.whole("accumulate", 1, 1 << 20, 1));
    // Clipping costs a pass over all gradients: timed only where it was asked for.
    s.clip = bench && !v.chosen("clip") ? 0 : v.real("clip", 0);
    s.optimizer = v.text("optimizer", program.optimizer);
    if (const auto &known = program.optimizers;
        !known.empty() && std::find(known.begin(), known.end(), s.optimizer) == known.end())
        v.refuse("optimizer", fmt::format("{}{}", fmt::join(known, " or "), did_you_mean(s.optimizer, known)));
    s.precision = v.word("precision", {"fp32", "bf16"}, "fp32");
    s.freeze = v.text("freeze", "none");
    if (s.freeze.empty()) v.refuse("freeze", "none or patterns of names, separated by commas");
    s.rate.steps = bench && !v.chosen("steps") ? 20 : v.whole("steps", 1, 1'000'000'000, 1000);
    s.rate.warmup = v.whole("warmup", 0, 1'000'000'000, 0);
    // A preset's numbers are those of the program's own optimizer.
    const bool own = s.optimizer == program.optimizer;
    auto use = [&](const char *flag) { return v.chosen(flag) || (own && v.given(flag)); };
    s.rate.high = use("lr") ? v.positive("lr", 0) : NAN;
    s.rate.low = use("min-lr") ? v.real("min-lr", 0) : NAN;
    if (s.rate.low > s.rate.high) {
        // A --lr of a stronger place, such as the command line of a resume, lowers the --min-lr of a weaker one.
        if (v.chosen("min-lr") && !v.stronger("lr", "min-lr"))
            v.refuse("min-lr", fmt::format("at most --lr, {}", s.rate.high));
        s.rate.low = s.rate.high;
    }
    for (const char *flag : {"beta1", "beta2"})
        if (use(flag)) s.numbers[flag] = v.fraction(flag, 0);
    if (use("weight-decay")) s.numbers["weight-decay"] = v.real("weight-decay", 0);
}

/// One that is named has to be there before anything is compiled.
void read_dialect(TrainSettings &s, const Values &v) {
    std::vector<std::string> names = {"auto", "halide"};
    for (const DialectLine &d : dialect_table()) names.push_back(d.name);
    s.dialect = v.word("dialect", names, "halide");
    if (find_dialect(s.dialect) && !load_dialect(s.dialect))
        fail_usage("--dialect {}: this build does not have it; {}", s.dialect, how_to_get(s.dialect));
}

void read_schedule(TrainSettings &s, const Values &v, Command command) {
    s.update = v.word("update", {"auto", "separate", "backward", "forward"}, "auto");
    s.recompute = v.text("recompute", "auto");
    if (s.recompute != "auto" && s.recompute != "none") s.budget = v.bytes("recompute", "none, auto or ");
    s.group = v.word("group", {"auto", "none"}, "auto");
    if (v.text("head-rows", "auto") != "auto") s.head_rows = int(v.whole("head-rows", 0, 1 << 20, 0, "auto or "));
    read_dialect(s, v);
    s.device = v.word("device", {"cpu", "opencl", "cuda"}, "cpu");
    if (s.device == "cuda" && command != Command::explain)
        fail_usage("--device cuda: kernels are compiled for it, and `explain` shows them, but nothing runs them yet; use cpu or opencl");
    if (s.device != "cpu" && s.precision == "bf16")
        fail_usage("--precision bf16 is for --device cpu: kernels for {} have no bf16 yet; use fp32", s.device);
    if (s.device != "cpu" && s.dialect != "halide")
        fail_usage("--dialect {} is for --device cpu, not for {}; use halide", s.dialect, s.device);
    s.workers = int(v.whole("workers", 1, 1024, 1));
    if (const int ranks = known_processes().size(); ranks > 1) {
        if (auto at = v.all().find("workers"); s.workers > 1 && at != v.all().end() && at->second.origin == Origin::command_line)
            fail_usage("--workers {} under mpirun: each of its {} processes is one worker; leave it out, or start more of them",
                       s.workers, ranks);
        s.workers = ranks;
    }
    if (s.workers > 1 && s.device != "cpu")
        fail_usage("--device {} has one worker yet, not {}: workers add gradients in the host's memory", s.device, s.workers);
    s.threads = int(v.whole("threads", 1, 1024, 0));
    s.patience = v.seconds("patience", default_patience);
}

void read_run(TrainSettings &s, const Values &v) {
    s.restarts = int(v.whole("restarts", 0, 1000, 0)), s.launch = v.text("launch");
    if (!s.launch.empty() && s.launch.find("{workers}") == std::string::npos)
        v.refuse("launch", "a command with {workers} for their number, such as \"mpirun -n {workers}\"");
    if (known_processes().size() > 1 && (s.restarts > 0 || !s.launch.empty()))
        fail_usage("--restarts and --launch start the processes themselves: without mpirun before them, cryolite train "
                   "--workers {} --restarts N --launch \"mpirun -n {{workers}}\"", known_processes().size());
    s.seed = v.whole("seed", 0, ~uint64_t{0} >> 1, 1);
    s.data = v.text("data"), s.validation = v.text("val"), s.init = v.text("init");
    s.out = v.text("out"), s.cache = v.text("cache");
    s.sequential = v.word("order", {"random", "sequential"}, "random") == "sequential";
    if (s.sequential && !s.text)
        fail_usage("--order sequential is for tokens; this model reads the rows of a table");
    if (!s.text && v.chosen("tokenizer"))
        fail_usage("--tokenizer is for text; this model reads the rows of a table");
    s.tokenizer = v.word("tokenizer", {"char", "gpt2"}, "char");
    s.resume = v.yes("resume"), s.json = v.yes("json");
    if (s.resume && s.out.empty())
        fail_usage("--resume needs --out DIR, the folder of the run to go on with");
    s.checkpoint_every = v.whole("checkpoint-every", 0, 1'000'000'000, 500);
    s.eval_every = v.whole("eval-every", 0, 1'000'000'000, 250);
    s.keep = int(v.whole("keep", 1, 1'000'000, 2));
    s.give_up_after = v.whole("give-up-after", 0, 1'000'000'000, 50);
    s.profile = v.yes("profile"), s.peers = v.yes("peers");
}

}  // namespace

namespace {

/// Every worker has an equal part of a micro-batch.
void check_workers(const TrainSettings &s) {
    if (s.workers == 1) return;
    const std::string workers = known_processes().size() > 1 ? fmt::format("the {} processes of mpirun", s.workers)
                                                             : fmt::format("--workers {}", s.workers);
    if (!s.params.count("batch"))
        fail_usage("{}: the model has no parameter 'batch' to divide among workers", workers);
    if (const int batch = s.param("batch", 1); batch % s.workers != 0)
        fail_usage("--batch {} is not divisible by {}: it counts {} over all workers, an equal part for each", batch, workers,
                   s.text ? "sequences" : "rows");
}

}  // namespace

TrainSettings understand(const Request &r) {
    TrainSettings s;
    s.app = r.app, s.preset = r.preset;
    s.text = r.program.description.task == "tokens", s.numbers_wanted = r.program.description.targets == "numbers";
    read_params(s, r.values, r.program.description);
    read_step(s, r);
    read_schedule(s, r.values, r.command);
    check_workers(s);
    read_run(s, r.values);
    if (r.command == Command::train) check_names(s);
    return s;
}

void complete(TrainSettings &s, const Values &values, const Plan &plan) {
    for (const char *flag : {"lr", "weight-decay", "beta1", "beta2"}) {
        const int at = plan.scalar(flag);
        if (at < 0 && values.chosen(flag))
            fail_usage("--{} was given, but the optimizer {} has no such number; leave it out",
                       flag, s.optimizer);
        if (at < 0)
            s.numbers.erase(flag);
        else if (flag != std::string("lr"))
            s.numbers.emplace(flag, plan.scalar_values[size_t(at)]);
        else if (std::isnan(s.rate.high))
            s.rate.high = plan.scalar_values[size_t(at)];
    }
    if (std::isnan(s.rate.low)) s.rate.low = s.rate.high / 10;
    if (s.rate.low > s.rate.high)
        fail_usage("--min-lr {} is above --lr {}, the optimizer's own; give both", s.rate.low,
                   s.rate.high);
}

std::map<std::string, std::string> flags_of(const TrainSettings &s) {
    auto real = [](double x) { return fmt::format("{}", x); };
    auto whole = [](uint64_t x) { return std::to_string(x); };
    std::map<std::string, std::string> m = s.params;
    m["accumulate"] = whole(uint64_t(s.accumulate)), m["clip"] = real(s.clip);
    m["optimizer"] = s.optimizer, m["update"] = s.update, m["precision"] = s.precision;
    m["freeze"] = s.freeze;
    m["lr"] = real(s.rate.high), m["min-lr"] = real(s.rate.low), m["warmup"] = whole(s.rate.warmup);
    for (auto &[flag, value] : s.numbers) m[flag] = real(value);
    m["group"] = s.group, m["recompute"] = s.recompute, m["dialect"] = s.dialect, m["device"] = s.device;
    m["head-rows"] = s.head_rows < 0 ? "auto" : whole(uint64_t(s.head_rows));
    m["workers"] = whole(uint64_t(s.workers)), m["threads"] = s.threads ? whole(uint64_t(s.threads)) : "all";
    m["steps"] = whole(s.rate.steps), m["seed"] = whole(s.seed), m["order"] = s.sequential ? "sequential" : "random";
    m["checkpoint-every"] = whole(s.checkpoint_every), m["keep"] = whole(uint64_t(s.keep));
    m["eval-every"] = whole(s.eval_every), m["give-up-after"] = whole(s.give_up_after);
    m["val"] = s.validation.empty() ? "none" : fs::absolute(s.validation).string();
    if (s.text) m["tokenizer"] = s.tokenizer;
    return m;
}

}  // namespace cryolite
