// cryolite export APP --out DIR: a C library that trains a model, with its weights, examples and a Makefile.

#include <algorithm>
#include <fstream>
#include <set>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/commands/template_file.h"
#include "apps/cryolite/export_library/tables.h"
#include "apps/cryolite/inputs/init_file.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/session/session.h"
#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/io/error.h"
#include "runtime/io/process.h"
#include "runtime/train/rate.h"

namespace cryolite {

namespace {

constexpr int example_steps = 20;

/// "gpt", of the program's name: what C takes for a name.
std::string library_name(const std::string &program) {
    std::string name = program;
    for (char &c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? char(std::tolower(c)) : '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "model_" + name;
    return name;
}

/// Of what kernels may use, what this processor has, by the names of __builtin_cpu_supports: the library asks again.
std::vector<std::string> processor_features() {
    static constexpr std::pair<const char *, const char *> known[] = {{"avx", "avx"},
                                                                      {"f16c", "f16c"},
                                                                      {"fma", "fma"},
                                                                      {"avx2", "avx2"},
                                                                      {"avx512f", "avx512f"},
                                                                      {"avx512bw", "avx512bw"},
                                                                      {"avx512dq", "avx512dq"},
                                                                      {"avx512vl", "avx512vl"},
                                                                      {"avx512cd", "avx512cd"},
                                                                      {"avx512_bf16", "avx512bf16"},
                                                                      {"avx512_vnni", "avx512vnni"}};
    std::vector<std::string> found;
    std::ifstream in("/proc/cpuinfo");
    std::string line;
    while (std::getline(in, line) && !line.starts_with("flags")) {
    }
    for (const auto &[system, builtin] : known)
        if ((line + " ").find(fmt::format(" {} ", system)) != std::string::npos) found.push_back(builtin);
    return found;
}

/// Bytes that the kernels of all plans take for temporaries on one thread: a session of one runs them.
int64_t measure_scratch(Session &session) {
    Trainer &trainer = *session.trainer;
    const Plan &plan = trainer.plan();
    const PlanBuffer &in = plan.buffers[size_t(plan.find("input", plan.task))];
    Batch batch;
    batch.tokens.assign(plan.task == "tokens" ? size_t(in.elements()) : 0, 0);
    batch.features.assign(plan.task == "tokens" ? 0 : size_t(in.elements()), 0.5f);
    batch.targets.assign(size_t(plan.buffers[size_t(plan.find("input", "targets"))].elements()), 0);
    const int micro_batches = plan.plans.contains("first") ? 3 : 1;
    for (int i = 0; i < 2; i++) trainer.step([&]() -> const Batch & { return batch; }, micro_batches);
    trainer.evaluate(batch, trainer.batch());
    trainer.predict(batch, trainer.batch());
    const auto *scheduler = static_cast<const TaskScheduler *>(session.devices[0]->context());
    return int64_t(scheduler->pools[0].bytes()) + 4096;
}

Marks marks_of(const TrainSettings &s, const Plan &plan, const std::string &name, const std::string &about) {
    std::string upper = name;
    std::ranges::transform(upper, upper.begin(), [](char c) { return char(std::toupper(c)); });
    const bool tokens = plan.task == "tokens";
    const PlanBuffer &in = plan.buffers[size_t(plan.find("input", plan.task))];
    const PlanBuffer &out = plan.buffers[size_t(plan.output)];
    const PlanBuffer &targets = plan.buffers[size_t(plan.find("input", "targets"))];
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
    std::string rate = fmt::format("{:.17g}", s.rate.high);
    if (s.rate.warmup >= example_steps) rate = fmt::format("{} * (i + 1) / {}.0", rate, s.rate.warmup + 1);
    int tensors = 0;
    for (const PlanBuffer &b : plan.buffers) tensors += b.role == "parameter" || b.role == "state";
    return {{"@name@", name},
            {"@NAME@", upper},
            {"@about@", about},
            {"@shapes@", shapes},
            {"@input@", tokens ? "int32_t" : "float"},
            {"@inputs@", tokens ? "tokens" : "features"},
            {"@scalars@", fmt::format("{}", fmt::join(plan.scalar_names, ", "))},
            {"@steps@", std::to_string(example_steps)},
            {"@tokens_per_step@", std::to_string(in.elements())},
            {"@tensors@", std::to_string(tensors)},
            {"@rate@", rate}};
}

/// What follows each other in a run with --order sequential.
void write_example_tokens(const RunData &data, const Plan &plan, const fs::path &file) {
    const PlanBuffer &in = plan.buffers[size_t(plan.find("input", plan.task))];
    const WindowShape shape{in.shape.back(), in.shape.front()};
    const auto source = sequential_windows(data.train, shape);
    Batch batch;
    source->allocate(batch);
    std::string bytes;
    auto add = [&](int32_t id) { bytes += {char(id & 255), char(id >> 8 & 255)}; };
    for (uint64_t i = 0; i < example_steps; i++) {
        source->fill(i, batch);
        std::ranges::for_each(batch.tokens, add);
    }
    add(batch.targets.back());
    write_file_atomic(file, bytes);
}

void run_tool(std::vector<std::string> argv, const std::string &package) {
    const std::string tool = argv[0];
    ProcessResult result;
    try {
        result = run_process({.argv = std::move(argv), .time_limit = 120});
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {
        fail("{}: export needs it; install the package '{}'", e.what(), package);
    }
    if (!result.ok()) fail("{} failed: {}\n{}", tool, how_it_ended(result), last_lines(result.errors, 4000));
}

/// All kernels in one object: the library is compiled from it and the sources beside it.
void link_kernels_of(const Plan &plan, const Cache &cache, const fs::path &object) {
    std::set<fs::path> objects;
    for (const PlanKernel &k : plan.kernels)
        objects.insert(cache.kernels() / (k.symbol.substr(k.symbol.find('_') + 1) + ".o"));
    std::vector<std::string> link = {"ld.lld", "-r", "-o", object};
    link.insert(link.end(), objects.begin(), objects.end());
    run_tool(link, "lld");
}

/// One object of which all but the library's own functions are local, so that several libraries go into one program.
void build_library(const fs::path &folder, const std::string &name) {
    const fs::path src = folder / "src", whole = folder / (name + ".o");
    std::vector<std::string> link = {"ld.lld", "-r", "-o", src / "all.o", src / "kernels.o"};
    for (const char *file : {"library", "weights", "tables"}) {
        const fs::path object = src / (std::string(file) + ".o");
        run_tool({"cc", "-std=gnu11", "-O2", "-fPIC", "-ffp-contract=off", "-I", folder, "-c",
                  src / (std::string(file) + ".c"), "-o", object},
                 "gcc");
        link.push_back(object);
    }
    run_tool(link, "lld");
    run_tool({"objcopy", "--wildcard", "--keep-global-symbol=" + name + "_*", src / "all.o", whole}, "binutils");
    run_tool({"ar", "rcsD", folder / ("lib" + name + ".a"), whole}, "binutils");
    run_tool({"cc", "-shared", "-Wl,-z,noexecstack,-z,now,--no-undefined", "-o", folder / ("lib" + name + ".so"), whole,
              "-lm"},
             "gcc");
    fs::remove(whole);
    for (const char *file : {"library.o", "weights.o", "tables.o", "all.o"}) fs::remove(src / file);
}

/// The plan with the numbers of the flags for defaults.
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

void check_library_folder(const fs::path &folder) {
    if (folder.empty()) fail_usage("export needs --out DIR: the folder of the library, as in --out gptlib");
    if (is_there(folder)) fail_usage("--out {} is there already: name another folder, or remove it", folder.string());
}

}  // namespace

int run_export(const std::vector<std::string> &arguments) {
    const Request request = read_request(Command::exports, arguments);
    TrainSettings s = understand(request);
    check_library_folder(s.out);
    if (s.workers != 1) fail_usage("a library is one worker, not {}: leave --workers out", s.workers);
    if (s.device != "cpu") fail_usage("a library runs on the CPU, not on --device {}: leave it out", s.device);
    if (s.scales_loss())
        fail_usage("a library keeps no scale of the loss, which --precision fp16 needs: use fp32 or bf16");
    const RunData data = open_data(s, request);
    if (!s.init.empty()) check_init(s, request);
    s.threads = 1;
    Progress progress;
    const std::unique_ptr<Session> session = open_session(s, request, progress);
    const Plan &plan = session->bundle->plan;
    check_exportable(plan);
    const std::string name = library_name(request.program.description.name);
    TemporaryFolder made(s.out);
    fs::create_directories(made.path() / "src");
    begin_weights(*session->trainer, s, request);
    session->trainer->name_tensors(nullptr);  // the library goes by the plan's names
    session->trainer->write_parameters(made.path() / (name + "_weights.safetensors"));
    const LibraryFacts facts{.name = name,
                             .input_classes = plan.task == "tokens" ? s.param("vocab", 0) : 0,
                             .scratch = measure_scratch(*session),
                             .features = processor_features()};
    const Marks marks = marks_of(s, plan, name, model_name(request));
    auto write = [&](const std::string &file, const std::string &as) {
        write_file_atomic(made.path() / as, filled_template("export_library", file, marks));
    };
    write("library.h", name + ".h");
    for (const char *file : {"internal.h", "library.c", "weights.c"}) write(file, std::string("src/") + file);
    write_file_atomic(made.path() / "src/tables.c", library_tables(with_numbers(plan, s), facts));
    if (s.text) {
        for (const char *file : {"example.c", "example.py", "Makefile"}) write(file, file);
        write_example_tokens(data, plan, made.path() / "example_tokens.bin");
    }
    link_kernels_of(plan, Cache(s.cache), made.path() / "src/kernels.o");
    build_library(made.path(), name);
    if (!made.publish()) fail_usage("--out {} is there already: name another folder, or remove it", s.out.string());
    progress.say(fmt::format("{}: lib{}.a, lib{}.so, {}.h; cd {} && make && ./example", s.out.string(), name, name,
                             name, s.out.string()));
    return 0;
}

}  // namespace cryolite
