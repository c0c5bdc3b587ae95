#include "generators/driver/program.h"

#include <unistd.h>

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bundle/plan_json.h"
#include "dsl/optimizers/adamw.h"
#include "dsl/optimizers/averaged.h"
#include "dsl/optimizers/lars.h"
#include "dsl/optimizers/lion.h"
#include "dsl/optimizers/sgd.h"
#include "generators/checks/check.h"
#include "generators/codegen/link.h"
#include "generators/codegen/progress.h"
#include "generators/driver/trials/choose_lines.h"
#include "generators/driver/oracles/constant_oracle.h"
#include "generators/driver/describe.h"
#include "generators/driver/trials/line_trials.h"
#include "generators/driver/memory/fit.h"
#include "generators/driver/trials/loop_trials.h"
#include "generators/driver/bad_parameters.h"
#include "generators/driver/machine_for.h"
#include "generators/driver/memory/memory_limit.h"
#include "generators/codegen/kernel_store.h"
#include "generators/driver/oracles/nature_oracle.h"
#include "generators/driver/oracles/reads_oracle.h"
#include "generators/checks/reference.h"
#include "generators/driver/schedule_text.h"
#include "generators/driver/step_arguments.h"
#include "generators/driver/write_bundle.h"
#include "generators/ir/printer.h"
#include "generators/passes/placement/memory.h"
#include "generators/passes/pipeline.h"
#include "schedules/lines.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

// One line for each optimizer; a program adds its own.
std::vector<std::pair<std::string, std::unique_ptr<Optimizer> (*)()>> optimizers = {
    {"adamw", rule<AdamW>},
    {"sgd", rule<Sgd>},
    {"lion", rule<Lion>},
    {"lars", rule<Lars>},
};

std::unique_ptr<Optimizer> make_optimizer(const std::string &given) {
    std::string names;
    for (auto &[name, make] : optimizers) {
        if (name == given) return make();
        names += (names.empty() ? "" : " or ") + name;
    }
    throw UsageError(fmt::format("--optimizer is '{}', expected {}", given, names));
}

struct Request {
    bool describe = false, weights = false, check = false, any_size = false;
    std::string bundle, store, plan_only, ir, reference, loops, candidates, moves, temporaries, halide_target;
    std::vector<std::string> params;
    std::vector<ParamGroup> param_groups;  ///< of the program
    StepConfig step;
    int64_t fit = 0, staging = 0;
    std::vector<std::string> open;
    std::string lines_from = "schedule";
    int replicas = 0;
    int jobs = int(sysconf(_SC_NPROCESSORS_ONLN)), time_limit = 120;
};

/// The flags that decide how large a model is.
std::vector<std::string> model_sizes() {
    std::vector<std::string> names;
    for (const Arguments::Known &k : Arguments::current().known)
        if (k.type == "int") names.push_back("--" + k.name);
    return names;
}

/// Keeps the program's text after each pass, or after one of them.
class Texts {
public:
    explicit Texts(const std::string &pass) : pass(pass) {
        std::vector<std::string> names = {"all", "lines", "trace"};
        for (const NamedPass &known : passes()) names.push_back(known.name);
        if (std::ranges::count(names, pass) == 0)
            throw UsageError(fmt::format("--ir is '{}', expected {}", pass, fmt::join(names, " or ")));
    }
    void add(const StepProgram &p, const std::string &after) {
        if (after == "trace") text.clear();  // a budget lowers a step several times: the last time counts
        if (pass == "lines") text = ir::lines_of(p);
        if (pass == "all" || pass == after) text += fmt::format("after the pass {}\n\n{}\n", after, ir::text_of(p));
    }
    /// Adds the verdicts of the schedule's lines, where a pass refuses one.
    void add_refusal(const StepProgram &p, const std::string &by) {
        if (pass == "lines") text.clear();
        text += fmt::format("# refused by the pass {}\n\n{}", by, ir::lines_of(p));
    }
    std::string text;

private:
    const std::string pass;
};

void print_line(const json &line) {
    fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
    fflush(stdout);
}

void print_fit(const Request &r, const StepOptions &options, int64_t budget, const Lower &lower) {
    auto open = [&](const char *flag) { return std::ranges::count(r.open, flag) > 0; };
    const MemoryRoom room{.bytes = r.fit,
                          .staging = r.staging,
                          .replicas = r.replicas ? r.replicas : r.step.workers,
                          .update = open("update"),
                          .recompute = open("recompute")};
    fmt::print("{}\n", json{{"fit", fit_step(room, options, budget, lower)}}.dump());
}

StepOptions options_of(const Request &r) {
    const StepConfig &c = r.step;
    StepOptions options{.clip = c.clips(),
                        .accumulate = c.accumulates(),
                        .finite_check = c.finite_check == "on",
                        .update = c.update,
                        .workers = c.workers,
                        .parts = c.parts,
                        .groups = c.group == "auto",
                        .head_rows = c.head_rows,
                        .dialect = c.dialect,
                        .tfloat32 = c.precision == "tf32",
                        .freeze = c.freeze_patterns()};
    options.param_groups = r.param_groups;
    for (const ParamGroup &g : c.param_groups()) options.param_groups.push_back(g);
    return options;
}

/// The lines of a step: those of its program, those that a search has found (--tuned), `more`, and those of --lines.
Step step_of(const Request &r, Model &model, ScheduleModel schedule, const Machine &machine,
             const std::string &more = "") {
    const StepConfig &c = r.step;
    Step step(machine);
    step.dialect_of_products = c.dialect;
    schedule(model, step);
    if (step.empty()) step.automatic();
    for (const auto &[text, place] : std::exchange(step.texts, {})) add_lines(step, model, text, place);
    if (c.tuned != "none") add_lines(step, model, c.tuned, "tuned");
    if (!more.empty()) add_lines(step, model, more, "tuned");
    try {
        if (c.lines != "none") add_lines(step, model, c.lines, r.lines_from);
    } catch (const Error &e) {
        throw UsageError(e.what());
    }
    if (!options_of(r).groups)  // lines that place layers are dropped, those of updates stay
        std::erase_if(step.placements,
                      [](auto &line) { return line.first.kind == Stage::value || line.first.kind == Stage::adjoint; });
    return step;
}

/// The bytes that a step may take; 0: any.
int64_t budget_of(const Request &r, const Step &step) {
    return r.step.budget ? int64_t(r.step.budget) : step.bytes_allowed;
}

/// Adds the lines that are chosen for a step. Then `act` gets its budget, its options and a function that takes the
/// step through all passes.
template <typename Act> auto lower_step(const Request &r, Step &step, Context cx, const Act &act) {
    const StepOptions options = options_of(r);
    const Lower lower_with = [&](const StepOptions &o) {
        cx.options = o;
        return lower(cx);
    };
    // For GPUs nothing is chosen: their loops have not been measured with such fusions.
    if (step.chooses && options.groups && !step.machine.gpu())
        choose_lines(step, [&] {
            StepOptions copying = options;  // a copy that can share a kernel needs no view
            copying.views = false;
            return lower_with(copying);
        });
    return act(budget_of(r, step), options, lower_with);
}

/// Says how to allow more, as the budget was given: by the flag or by a line.
std::string with_way_out(const DoesNotFit &e, const Request &r) {
    const std::string smaller = "use a smaller batch, context or model";
    return r.step.budget
               ? fmt::format("--recompute: {}; allow that with --recompute {}, or {}", e.what(), e.least, smaller)
               : fmt::format("{}; {}; the nearest legal line is s.budget({})", e.what(), smaller, e.least);
}

int build(const Request &r, Model &model, ScheduleModel schedule) {
    const StepConfig &c = r.step;
    const Machine machine = machine_for(c, r.halide_target);
    std::unique_ptr<Optimizer> optimizer = make_optimizer(c.optimizer);
    if (c.averages()) optimizer = std::make_unique<Averaged>(std::move(optimizer));
    if (!r.reference.empty())
        return fmt::print("{}\n", reference_steps(model, *optimizer, options_of(r), read_whole(r.reference))), 0;
    const double bytes = r.any_size ? INFINITY : std::max(machine_memory(), double(r.fit));
    Step step = step_of(r, model, schedule, machine);
    if (r.ir.empty())
        ProgressReporter::report = [](const std::string &what, int done, int total) {
            print_line({{"phase", what}, {"done", done}, {"total", total}});
        };
    KnownLayers known;
    const auto context_of = [&](const Step &s) {
        return Context{.model = model,
                       .optimizer = *optimizer,
                       .schedule = s,
                       .oracle = reads_by_building(machine, r.jobs, r.time_limit),
                       .natures = natures_by_building(r.jobs, r.time_limit),
                       .products = products_by_building(r.jobs, r.time_limit),
                       .constants = constants_by_running(r.time_limit),
                       .known = &known,
                       .sized = [bytes](const StepProgram &q) { check_size(q, model_sizes(), bytes); }};
    };
    Context cx = context_of(step);
    std::optional<Texts> texts;
    if (!r.ir.empty()) {
        texts.emplace(r.ir);
        cx.after = [&](const StepProgram &q, const std::string &pass) { texts->add(q, pass); };
        cx.refused = [&](const StepProgram &q, const std::string &pass) { texts->add_refusal(q, pass); };
    }
    const auto show = [&] {
        if (texts) fmt::print("{}", texts->text);
    };
    StepProgram p;
    try {
        if (r.fit)
            return lower_step(r, step, cx, [&](int64_t budget, const StepOptions &options, const Lower &lower_with) {
                return print_fit(r, options, budget, lower_with), 0;
            });
        p = lower_step(r, step, cx, lower_within);
    } catch (const DoesNotFit &e) {
        show();
        throw UsageError(with_way_out(e, r));
    } catch (const Error &) {
        show();
        throw;
    }
    CompileOptions how{.store = r.store,
                       .jobs = r.jobs,
                       .time_limit = r.time_limit,
                       .progress =
                           [](int done, int total, int cached) {
                               print_line({{"done", done}, {"total", total}, {"cached", cached}});
                           },
                       .algorithms = !r.loops.empty()};
    if (texts) {
        if (r.ir == "lines")
            texts->text = schedule_text(p, options_of(r), budget_of(r, step), describe_kernels(p, machine, how));
        return fmt::print("{}", texts->text), 0;
    }
    if (!r.loops.empty()) return write_whole(r.loops, loops_json(p, describe_kernels(p, machine, how))), 0;
    if (!r.temporaries.empty())
        return write_whole(r.temporaries, json(temporaries_of_kernels(p, machine, how)).dump()), 0;
    if (!r.candidates.empty()) return try_loops(p, step, machine, how, read_whole(r.candidates), r.bundle), 0;
    const auto planned = [&](const StepProgram &q, const CompileReport &kernels) {
        return plan_of(q, model, kernels, place_activations(q, touched_by(q, kernels)));
    };
    const auto plan_with = [&](const std::string &line) {
        Step other = step_of(r, model, schedule, machine, line);
        const StepProgram q = lower_step(r, other, context_of(other), lower_within);
        return planned(q, describe_kernels(q, machine, how));
    };
    if (!r.moves.empty()) return try_lines(p, read_whole(r.moves), plan_with, r.bundle, print_line), 0;
    if (!r.plan_only.empty())
        return write_whole(r.plan_only, plan_text(planned(p, describe_kernels(p, machine, how)))), 0;
    const CompileReport compiled = compile_kernels(p, machine, how);
    std::filesystem::create_directories(r.bundle);
    link_kernels(compiled, how, machine.target, r.bundle);
    write_whole(r.bundle + "/plan.json", plan_text(planned(p, compiled)));
    return 0;
}

std::vector<ParamGroup> groups_of(const ProgramInfo &info) {
    std::vector<ParamGroup> groups;
    for (const std::string &text : info.param_groups) {
        const std::optional<ParamGroup> group = ParamGroup::parse(text);
        if (!group) fail("the program's group of parameters is '{}', expected {}", text, ParamGroup::expected);
        groups.push_back(*group);
    }
    return groups;
}

int run(const Request &r, const ProgramInfo &info, ModelMaker make, ScheduleModel schedule) {
    for (const std::string &text : r.params) {
        auto at = text.find('=');
        if (at == std::string::npos) fail("--param '{}' is not NAME=VALUE", text);
        Arguments::current().given.push_back({text.substr(0, at), text.substr(at + 1)});
    }
    make_optimizer(r.step.optimizer);  // throws, and names all optimizers, where there is none of this name
    std::unique_ptr<Model> model = make();
    for (auto &[name, text] : Arguments::current().given) {
        bool known = false;
        for (const Arguments::Known &k : Arguments::current().known) known |= k.name == name;
        if (!known) fail("the model has no parameter --{}", name);
    }
    if (const std::string why = why_not(r.step); !why.empty()) throw UsageError(why);
    if (const FormatRow *f = r.step.format(); f && f->is_narrow()) model->numerics(f->format);
    if (r.describe) return fmt::print("{}\n", description_of(info, *model, optimizers)), 0;
    if (r.weights) return fmt::print("{}\n", weights_of(*model)), 0;
    if (r.check) return check_gradients(*model);
    const bool compiles = r.plan_only.empty() && r.ir.empty() && r.reference.empty() && r.loops.empty() &&
                          r.temporaries.empty() && !r.fit;
    if (compiles && (r.bundle.empty() || r.store.empty())) fail("--bundle and --store name the folders to write to");
    return build(r, *model, schedule);
}

}  // namespace

}  // namespace cryolite::compiler

namespace cryolite {

int run_program(int argc, char **argv, const ProgramInfo &info, ModelMaker make, ScheduleModel schedule) {
    using namespace compiler;
    Request r;
    r.step.optimizer = info.optimizer;
    optimizers.insert(optimizers.end(), info.optimizers.begin(), info.optimizers.end());
    CLI::App app{"Cryolite generator program: " + info.name};
    app.add_flag("--describe", r.describe, "print the model's parameters as JSON");
    app.add_flag("--weights", r.weights, "print the names and shapes of the model's weights as JSON");
    app.add_flag("--check", r.check, "check the gradients of every layer against finite differences");
    app.add_option("--bundle", r.bundle, "folder to write kernels.so and plan.json to");
    app.add_option("--plan-only", r.plan_only,
                   "file to write the plan to, with the keys of its kernels: nothing is compiled");
    app.add_option("--ir", r.ir,
                   "print the step after this pass of the compiler, or after all of them: nothing is compiled");
    app.add_option("--reference", r.reference,
                   "file of numbers: print what training with them comes to in float64, without passes or schedules");
    app.add_option("--loops", r.loops,
                   "file to write the numbers of the kernels' loops to, as JSON: nothing is compiled");
    app.add_option("--candidates", r.candidates,
                   "file of a kernel's name and of numbers for its loops: each is compiled into --bundle");
    app.add_option("--moves", r.moves,
                   "file of lines to leave out, as JSON: the others that the step could have are judged, and the plan "
                   "with each is written to --bundle; nothing is compiled");
    app.add_option("--store", r.store, "folder of compiled kernels");
    app.add_option("--temporaries", r.temporaries,
                   "file to write the bytes of temporaries of each kernel to, as JSON: all are compiled already");
    app.add_option("--halide-target", r.halide_target, "as Halide spells it, instead of --target");
    app.add_option("--param", r.params, "NAME=VALUE of a generator parameter");
    const StepArguments step(app);
    app.add_option("--fit", r.fit, "bytes that a run may take: print as JSON how the step fits; nothing is compiled");
    app.add_option("--open", r.open, "of --fit: update, recompute, which may be chosen")
        ->check(CLI::IsMember({"update", "recompute"}));
    app.add_option("--staging", r.staging, "of --fit: bytes beside the step for each element of its largest tensor");
    app.add_option("--replicas", r.replicas, "of --fit: workers in one process; 0: all");
    app.add_option("--lines-from", r.lines_from, "what errors call the text of --lines: the name of its file");
    app.add_flag("--any-size", r.any_size, "also a step that this machine has not enough memory for");
    app.add_option("--jobs", r.jobs, "compiler processes at a time");
    app.add_option("--time-limit", r.time_limit, "seconds for one kernel");
    CLI11_PARSE(app, argc, argv);
    try {
        r.param_groups = groups_of(info);
        step.read(r.step);
        return run(r, info, make, schedule);
    } catch (const UsageError &e) {
        fmt::print(stderr, "{}: {}\n", info.name, e.what());
        return 2;
    } catch (const Error &e) {
        const std::string flags = bad_parameters(make, e.what());
        fmt::print(stderr, "{}: {}{}\n", info.name, e.what(), flags.empty() ? "" : " (" + flags + ")");
        return flags.empty() ? 1 : 2;
    } catch (const Halide::Error &e) {
        fmt::print(stderr, "{}: {}\n", info.name, e.what());
    } catch (const std::exception &e) {
        fmt::print(stderr, "{}: {}\n", info.name, e.what());
    }
    return 1;
}

}  // namespace cryolite
