// cryolite sample RUN: text from a run.

#include <CLI/CLI.hpp>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/cli/version.h"
#include "apps/cryolite/commands/sample/sampler.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/resume.h"
#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/session/session.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

struct SampleOptions {
    fs::path run;
    std::string prompt;
    uint64_t tokens = 300, seed = 1;
    double temperature = 0.8;
    std::string cache;
    int threads = 0;
    bool compile = false;  ///< compile kernels for one sequence
};

std::vector<std::pair<Setting, ValueRef>> sample_flags(SampleOptions &o) {
    return {{{.name = "tokens", .value = "N", .help = "how many to generate", .range = WholeRange{1, 1'000'000'000}},
             &o.tokens},
            {{.name = "temperature",
              .value = "X",
              .help = "0: always the likeliest token",
              .range = RealRange::not_negative},
             &o.temperature},
            {{.name = "seed",
              .value = "N",
              .help = "seed of the random choices: another seed, another text",
              .range = WholeRange{0, ~uint64_t{0} >> 1}},
             &o.seed},
            {{.name = "cache",
              .value = "DIR",
              .help = "compiled kernels",
              .range = Setting::File{},
              .otherwise = "$XDG_CACHE_HOME/cryolite"},
             &o.cache},
            {{.name = "threads",
              .value = "N",
              .help = "threads",
              .range = WholeRange{1, 1024},
              .otherwise = "all cores that this process may use"},
             &o.threads}};
}

SampleOptions read_options(const std::vector<std::string> &arguments) {
    SampleOptions o;
    std::map<std::string, std::string> texts;
    std::string run;
    CLI::App app{"Generates text from a run.", "cryolite sample"};
    app.set_version_flag("--version", "cryolite " CRYOLITE_VERSION);
    app.add_option("RUN", run, "folder of a run")->required();
    app.add_option("--prompt", o.prompt, "text to go on from");
    for (const auto &[flag, value] : sample_flags(o)) {
        const std::string otherwise = flag.otherwise.empty() ? text_of(flag, value) : flag.otherwise;
        app.add_option("--" + flag.name, texts[flag.name], fmt::format("{} ({})", flag.help, otherwise))
            ->type_name(flag.value);
    }
    app.add_flag("--compile", o.compile,
                 "compile kernels for a single sequence first, which take less time for a token than the run's own");
    read_line(app, arguments, "sample");
    Values v;
    for (auto &[name, text] : texts)
        if (app.count("--" + name)) v.give(name, {text, Origin::command_line});
    o.run = run;
    for (const auto &[flag, value] : sample_flags(o)) v.read(flag, value);
    return o;
}

/// Checks the prompt before anything is compiled.
void check_prompt(const std::string &prompt, const Tokenizer &tokenizer) {
    std::vector<int> tokens;
    try {
        tokens = tokenizer.encode(prompt);
    } catch (const Error &e) {
        fail_usage("--prompt: {}", e.what());
    }
    if (tokens.empty() && !prompt.empty()) fail_usage("--prompt: the run's vocabulary has no token for any byte of it");
}

/// The run's own settings, so that training's bundle is found in the cache; with --compile, for one sequence at a time.
Request read_run(const SampleOptions &o) {
    require_run(o.run);
    Request r;
    r.command = Command::train;
    for (auto &[name, given] : read_config(o.run / "config.toml", Origin::resumed, list_mark))
        r.values.give(name, given);
    r.app = r.values.text("app", default_app);
    r.program = program_of_run(o.run, r.app, Cache(o.cache));
    if (o.compile) {
        for (const char *flag : {"batch", "accumulate", "clip", "threads", "workers", "deterministic"})
            r.values.erase(flag);
        r.values.give("batch", {"1", Origin::command_line});
    }
    if (!o.cache.empty()) r.values.give("cache", {o.cache, Origin::command_line});
    return r;
}

}  // namespace

int run_sample(const std::vector<std::string> &arguments) {
    const SampleOptions o = read_options(arguments);
    const Request request = read_run(o);
    TrainSettings s = understand(request);
    if (!s.text) fail_usage("{} is a run of {}, which does not generate text", o.run.string(), request.app);
    if (!fs::exists(o.run / "vocab.json"))
        fail_usage("{} has no vocab.json: it was trained on tokens whose text is not known", o.run.string());
    const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(o.run / "vocab.json");
    Progress progress;
    const std::optional<Checkpoint> checkpoint =
        newest_good_checkpoint(o.run, [&](const Checkpoint &c, const std::string &why) {
            progress.say(fmt::format("skipped the checkpoint {}: {}", c.path.string(), why));
        });
    if (!checkpoint) fail("{} has no checkpoint that is whole", o.run.string());
    check_prompt(o.prompt, *tokenizer);
    if (const std::string made = program_of(*checkpoint); !made.empty() && made != request.program.id)
        progress.say(fmt::format("{}: the text is that of the program as it is now", program_changed));
    const std::shared_ptr<const Bundle> bundle = open_bundle(s, request, progress, false);
    s.threads = o.threads ? o.threads : usable_cores();  // of several workers the first one does all the work
    Session session(bundle, s, request.program.description.weights);
    progress.say(fmt::format("reading the weights of step {}", checkpoint->step));
    session.trainer->load_parameters(checkpoint->path / "model.safetensors",
                                     [](const std::string &name) { return name; });
    Sampler sampler(*session.trainer, *tokenizer, o.temperature, o.seed);
    sampler.begin(o.prompt);
    defer_signals();
    progress.busy("the first token");  // it takes longer, as memory is touched for the first time
    for (uint64_t n = 0; n < o.tokens && !interrupted(); n++) {
        const int token = sampler.next();
        progress.clear();
        fmt::print("{}{}", n ? "" : o.prompt, sampler.piece(token));
        if (std::fflush(stdout) != 0) break;  // nobody reads it any more
    }
    fmt::print("\n");
    return interrupted() ? interrupted_status : 0;
}

}  // namespace cryolite
