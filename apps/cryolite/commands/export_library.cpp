// cryolite export APP --out DIR: a C library that trains a model, with its weights, examples and a Makefile.

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/commands/template_file.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/export_library/tables.h"
#include "apps/cryolite/export_library/toolchain.h"
#include "apps/cryolite/inputs/init_file.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/run/work_folder.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "apps/cryolite/session/target_choice.h"
#include "bundle/plan_json.h"
#include "runtime/io/error.h"
#include "runtime/train/rate.h"

namespace cryolite {

namespace {

constexpr int example_steps = 20;

/// The program's name as an identifier of C: "gpt".
std::string library_name(const std::string &program) {
    std::string name = program;
    for (char &c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? char(std::tolower(c)) : '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "model_" + name;
    return name;
}

Marks marks_of(const Plan &plan, const std::string &name, const std::string &about) {
    std::string upper = name;
    std::ranges::transform(upper, upper.begin(), [](char c) { return char(std::toupper(c)); });
    const bool tokens = plan.task == "tokens";
    const PlanBuffer &in = plan.buffers[size_t(plan.find(Role::input, plan.task))];
    const PlanBuffer &out = plan.buffers[size_t(plan.output)];
    const PlanBuffer &targets = plan.buffers[size_t(plan.find(Role::input, "targets"))];
    const auto shape = [](const PlanBuffer &b) {
        return fmt::format("[{}]", fmt::join(b.shape.rbegin(), b.shape.rend(), "]["));
    };
    std::string shapes = fmt::format("#define {}_BATCH {}\n", upper, targets.shape.back());
    shapes +=
        fmt::format("#define {}_{} {} /* {}{}: {}, of one micro-batch */\n", upper, tokens ? "TOKENS" : "FEATURES",
                    in.elements(), tokens ? "tokens" : "features", shape(in), tokens ? "int32_t" : "float");
    shapes +=
        fmt::format("#define {}_TARGETS {} /* targets{}: int32_t */\n", upper, targets.elements(), shape(targets));
    shapes += fmt::format("#define {}_OUTPUTS {} /* output{}: float */", upper, out.elements(), shape(out));
    std::vector<std::string> scalars = plan.scalar_names;
    std::erase(scalars, "loss_scale");  // every step sets it
    int tensors = 0;
    for (const PlanBuffer &b : plan.buffers) tensors += b.role == Role::parameter || b.role == Role::state;
    return {{"@name@", name},
            {"@NAME@", upper},
            {"@about@", about},
            {"@shapes@", shapes},
            {"@input@", tokens ? "int32_t" : "float"},
            {"@inputs@", tokens ? "tokens" : "features"},
            {"@INPUTS@", tokens ? "TOKENS" : "FEATURES"},
            {"@scalars@", fmt::format("{}", fmt::join(scalars, ", "))},
            {"@steps@", std::to_string(example_steps)},
            {"@tensors@", std::to_string(tensors)}};
}

/// The learning rates of the example's steps, four a line.
std::string example_rates(const LearningRate &rate, const std::string &indent) {
    std::string text;
    for (uint64_t i = 0; i < example_steps; i++)
        text += fmt::format("{}{:.17g},{}", i % 4 ? " " : indent, rate.at(i), i % 4 == 3 ? "\n" : "");
    return text;
}

/// Adds the marks of the examples, which have the rates and micro-batches of a run with the same flags.
void add_example_marks(Marks &marks, const TrainSettings &s, const Plan &plan, const std::string &name) {
    const bool has_rate = plan.scalar("lr") >= 0;
    const auto where_rate = [&](const std::string &text) { return has_rate ? text : ""; };
    marks.insert(
        marks.end(),
        {{"@micro_batches@", std::to_string(s.accumulate)},
         {"@ctype@", s.text ? "c_int32" : "c_float"},
         {"@input_count@", std::to_string(plan.buffers[size_t(plan.find(Role::input, plan.task))].elements())},
         {"@target_count@", std::to_string(plan.buffers[size_t(plan.find(Role::input, "targets"))].elements())},
         {"@rates@", where_rate(fmt::format("    static const double rates[steps] = {{\n{}    }};\n",
                                            example_rates(s.rate, "        ")))},
         {"@rates_of_python@", where_rate(fmt::format("RATES = [\n{}]\n", example_rates(s.rate, "    ")))},
         {"@set_rate@", where_rate(fmt::format("        stop_on_error({}_set(m, \"lr\", rates[i]), m);\n", name))},
         {"@set_rate_of_python@",
          where_rate(fmt::format("        check(lib.{}_set(model, b\"lr\", RATES[i]))\n", name))}});
}

/// The first micro-batches of a run: inputs and targets of each step, one after the other.
void write_example_batches(const RunData &data, const TrainSettings &s, const fs::path &file) {
    const auto source = data.source(s);
    Batch batch;
    source->allocate(batch);
    std::string bytes;
    const auto add = [](std::string &to, const auto &numbers) {
        to.append(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof numbers[0]);
    };
    for (uint64_t i = 0; i < example_steps; i++) {
        std::string targets;
        for (uint64_t k = 0; k < uint64_t(s.accumulate); k++) {
            source->fill(i * uint64_t(s.accumulate) + k, batch);
            add(bytes, batch.tokens), add(bytes, batch.features), add(targets, batch.targets);
        }
        bytes += targets;
    }
    write_file_atomic(file, bytes);
}

/// The plan with the values of the flags as defaults of its scalars.
Plan with_numbers(Plan plan, const TrainSettings &s) {
    for (size_t i = 0; i < plan.scalar_names.size(); i++) {
        const std::string &scalar = plan.scalar_names[i];
        if (const auto at = s.numbers.find(scalar); at != s.numbers.end()) plan.scalar_values[i] = at->second;
        if (scalar == "clip") plan.scalar_values[i] = s.clip;
        if (scalar == "ema") plan.scalar_values[i] = s.ema;
        if (scalar == "lr") plan.scalar_values[i] = s.rate.high;
    }
    return plan;
}

/// What each scalar of the plan may be set to: what its flag takes.
std::vector<RealRange> ranges_of(const Plan &plan, const TrainSettings &s, const Request &request) {
    const ProgramDescription::Rule *rule = request.program.description.rule(s.optimizer);
    std::vector<RealRange> ranges;
    for (const std::string &scalar : plan.scalar_names) {
        const ProgramDescription::Number *number = rule ? rule->find(scalar) : nullptr;
        const Flag *flag = find_flag(scalar);
        const RealRange *of_flag = flag ? std::get_if<RealRange>(&flag->range) : nullptr;
        if (scalar == "step")
            ranges.push_back({.low = 0, .high = 2e9});  // kernels count in 32 bits
        else if (scalar == "lr")
            ranges.push_back(RealRange::not_negative);  // a schedule may end at 0
        else
            ranges.push_back(number ? number->range : of_flag ? *of_flag : RealRange::finite);
    }
    return ranges;
}

void check_library_folder(const fs::path &folder) {
    if (folder.empty()) fail_usage("export needs --out DIR: the folder of the library, as in --out gptlib");
    if (is_there(folder)) fail_usage("--out {} is there already: name another folder, or remove it", folder.string());
}

/// A target of the library, whose kernels are in the cache.
struct Variant {
    const TargetLine *target;
    Plan plan;
    VariantFacts facts;
};

/// Compiles the step for a target, which may be another processor.
Variant compile_variant(const TargetLine &target, TrainSettings s, const Request &request, const Cache &cache,
                        Progress &progress) {
    s.target = target.name == "host" ? "vectors" : target.name;  // a library has Halide's runtime, and nothing else
    const BundleRequest wanted = bundle_request(s);
    const BundleResult built = compile_bundle(wanted, request, cache, progress);
    stop_deferring();
    Variant v{.target = &target, .plan = read_plan(built.files.at("plan.json")->read(), "plan.json"), .facts = {}};
    check_exportable(v.plan);
    check_kernels(v.plan);
    v.plan = with_numbers(std::move(v.plan), s);
    const std::vector<RealRange> ranges = ranges_of(v.plan, s, request);
    v.facts = {.name = target.name,
               .input_classes = v.plan.task == "tokens" ? s.param("vocab", 0) : 0,
               .scratch = kernel_temporaries(request.program, wanted, cache),
               .ranges = ranges,
               .features = target.machine.empty() ? processor_features() : target.features};
    return v;
}

/// The target with which this machine computes the initial weights: one of the library's, if one runs here.
std::string target_here(const std::vector<const TargetLine *> &targets) {
    std::string here = "host";
    for (const TargetLine *t : targets)
        if (what_lacks_here(*t).empty()) here = t->name;
    return here;
}

void add_variant_marks(Marks &marks, const std::vector<Variant> &variants) {
    std::string declarations, list, names;
    for (const Variant &v : variants) {
        const std::string name = "variant_" + c_name(v.target->name);
        declarations += (declarations.empty() ? "" : "\n") + fmt::format("extern const variant {};", name);
        list = "&" + name + (list.empty() ? "" : ", ") + list;  // the library takes the first that runs
        names += (names.empty() ? "" : ", ") + v.target->name;
    }
    marks.insert(marks.end(),
                 {{"@variant_declarations@", declarations}, {"@variants@", list}, {"@instruction_sets@", names}});
}

/// Throws UsageError if the program's name, which becomes that of a type, is already one of C, C++ or the example.
void check_name(const std::string &name, Marks marks, const Toolchain &tools) {
    static const std::set<std::string> of_cpp = {
        "alignas", "alignof", "and",       "asm",       "bitand",    "bitor",    "bool",   "catch",    "class",
        "compl",   "concept", "consteval", "constexpr", "constinit", "decltype", "delete", "explicit", "export",
        "false",   "friend",  "mutable",   "namespace", "new",       "noexcept", "not",    "nullptr",  "operator",
        "or",      "private", "protected", "public",    "requires",  "template", "this",   "throw",    "true",
        "try",     "typeid",  "typename",  "using",     "virtual",   "xor"};
    const WorkFolder work("cryolite-name");
    for (const auto &[file, as] : {std::pair{"library.h", name + ".h"}, {"example.c", "example.c"}})
        write_file_atomic(work.path / as, filled_template("export_library", file, marks));
    if (!of_cpp.contains(name) && tools.accepts(work.path / "example.c")) return;
    fail_usage("the program is called '{}', which is a name of C or C++ already, but the library needs a type of this "
               "name: give program<...>() in its main() another name",
               name);
}

void write_sources(const fs::path &folder, const std::string &name, const Marks &marks,
                   const std::vector<Variant> &variants) {
    const auto write = [&](const std::string &file, const std::string &as) {
        write_file_atomic(folder / as, filled_template("export_library", file, marks));
    };
    write("library.h", name + ".h");
    for (const char *file : {"internal.h", "kernels.c", "library.c", "weights.c"})
        write(file, std::string("src/") + file);
    for (const Variant &v : variants)
        write_file_atomic(folder / fmt::format("src/tables_{}.c", c_name(v.target->name)),
                          variant_tables(v.plan, v.facts));
    for (const char *file : {"example.c", "example.py", "Makefile"}) write(file, file);
}

}  // namespace

int run_export(const std::vector<std::string> &arguments) {
    const Request request = read_request(Command::exports, arguments);
    TrainSettings s = understand(request);
    check_library_folder(s.out);
    if (s.numbers_wanted)
        fail_usage("{} predicts numbers, but a library takes only ids as targets", model_name(request));
    if (s.workers != 1) fail_usage("a library is one worker, not {}: leave --workers out", s.workers);
    if (s.deterministic)
        fail_usage("a library is one worker, whose steps have the same bits: leave --deterministic out");
    if (s.device != "cpu") fail_usage("a library runs on the CPU, not on --device {}: leave it out", s.device);
    if (s.precision == "fp16")
        fail_usage("a library keeps no scale of the loss, which --precision fp16 needs: use fp32 or bf16");
    if (s.finite_check != "on")
        fail_usage("--finite-check off is only for measuring, but a library trains: leave it out");
    const std::vector<const TargetLine *> targets = targets_of(s.target).value();
    const Toolchain tools(targets[0]->machine);
    const std::string targets_given = s.target;
    const RunData data = open_data(s, request);
    if (!s.init.empty()) check_init(s, request);
    s.threads = 1, s.target = target_here(targets);
    const std::string name = library_name(request.program.description.name);
    const Plan planned = step_plan(request.program, bundle_request(s));  // may be refused before anything is compiled
    check_exportable(planned);
    Marks marks = marks_of(planned, name, model_name(request));
    add_example_marks(marks, s, planned, name);
    check_name(name, marks, tools);
    Progress progress;
    const std::unique_ptr<Session> session = open_session(s, request, progress);
    const Cache cache(s.cache);
    std::vector<Variant> variants;
    for (const TargetLine *t : targets) variants.push_back(compile_variant(*t, s, request, cache, progress));
    TemporaryFolder made(s.out);
    fs::create_directories(made.path() / "src");
    begin_weights(*session->trainer, s, request);
    session->trainer->name_tensors(nullptr);  // the library goes by the plan's names
    session->trainer->write_parameters(made.path() / (name + "_weights.safetensors"));
    marks.push_back({"@tools@", tools.make_variables()});
    add_variant_marks(marks, variants);
    write_sources(made.path(), name, marks, variants);
    write_example_batches(data, s, made.path() / "example_batches.bin");
    for (const Variant &v : variants)
        tools.link_kernels(v.plan, cache, made.path() / fmt::format("src/kernels_{}.o", c_name(v.target->name)));
    tools.build_library(made.path(), name);
    if (!made.publish()) fail_usage("--out {} is there already: name another folder, or remove it", s.out.string());
    progress.say(fmt::format("{}: lib{}.a, lib{}.so, {}.h for {}; cd {} && make && ./example", s.out.string(), name,
                             name, name, targets_given, s.out.string()));
    return 0;
}

}  // namespace cryolite
