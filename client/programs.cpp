#include "client/programs.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bundle/flops.h"
#include "bundle/near_names.h"
#include "bundle/plan_json.h"
#include "client/user_program.h"
#include "client/without_compiler.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"
#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

/// Identifies the processor that kernels for this host depend on, by what the system says of it: asking Halide would
/// load it.
std::string machine_id() {
    struct utsname name {};
    uname(&name);
    std::string text = name.machine, line;
    std::ifstream in("/proc/cpuinfo");
    while (std::getline(in, line) && !line.empty())  // the first processor
        for (const char *part : {"vendor_id", "cpu family", "model\t", "flags", "Features", "CPU part"})
            if (line.starts_with(part)) text += "|" + line;
    if (has_matrix_tiles()) text += "|tiles";  // a system may keep a process from using them
    return sha256_hex(text).substr(0, 16);
}

namespace {

bool runnable(const fs::path &path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

bool has_ending_of_source(const std::string &app) {
    const std::string ending = fs::path(app).extension().string();
    return ending == ".cpp" || ending == ".cc" || ending == ".cxx";
}

fs::path built_in_program(const std::string &app) {
    const fs::path folder = build_folder() / "generators";
    if (runnable(folder / app)) return folder / app;
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (runnable(at->path())) names.push_back(at->path().filename().string());
    if (names.empty()) fail("there are no generator programs in {}: build them with ./cryolite", folder.string());
    std::sort(names.begin(), names.end());
    const std::string source = app + ".cpp";
    const bool has_source = fs::exists(source, error);
    fail_usage("there is no app {}{}: expected {}, or the path of a .cpp of your own", shown(app),
               has_source ? fmt::format(" (did you mean {}?)", source) : did_you_mean(app, names),
               fmt::join(names, ", "));
}

/// A digest of the program's digest and of the compiler library that it loads. The library is too large to read at
/// every start: its size has to do, beside the version in every kernel's key.
std::string program_id(std::string id) {
    try {
        const json flags = build_flags();
        id += fmt::format(" {} {}", std::string(flags.at("halide")),
                          fs::file_size(std::string(flags.at("compiler_library"))));
    } catch (const std::exception &) {  // a test's own program: there is no such file
    }
    return sha256_hex(id);
}

using Params = std::map<std::string, std::string>;

std::string run_describe(const Program &program, const Params &params) {
    ProcessOptions options{.argv = {program.path, "--describe"},
                           .program = descriptor_of(program),
                           .time_limit = program_time_limit(),
                           .memory_limit = memory_share(1)};
    add_params(options.argv, params);
    const ProcessResult result = run_process(options);
    // It read the parameters and refused one: the user's input is wrong.
    if (result.told_why() && (result.status == 2 || !params.empty())) throw UsageError(last_words(result));
    if (!result.ok())
        fail("{} did not describe its model: {}. Its last words:\n{}", program.app, how_it_ended(result),
             last_words(result));
    auto refuse = [&](const std::string &what) {
        fail("{} answered --describe with {}, not with its model: its main() should be `return "
             "cryolite::program<Model>(argc, argv, {{...}})` and print nothing itself",
             program.app, what);
    };
    try {
        read_description(result.output);
    } catch (const json::exception &) {
        refuse(shown(result.output));
    } catch (const NameError &e) {
        fail_usage("{}: {}", program.app, e.what());
    } catch (const std::exception &e) {
        refuse(e.what());
    }
    return result.output;
}

std::string description_key(const Program &program, const Params &params) {
    return sha256_hex(json{{"id", program.id}, {"given", params}}.dump());
}

std::optional<ProgramDescription> known_description(const Program &program, const Params &params, const Cache &cache) {
    if (std::optional<CacheEntry> entry = cache.find("descriptions", description_key(program, params))) {
        try {
            return read_description(entry->files.at("description.json")->read());
        } catch (const std::exception &) {  // an older form
        }
    }
    return std::nullopt;
}

/// The program's description of its model, given these parameters. It is kept in the cache, because starting the
/// program loads the whole compiler.
ProgramDescription describe(const Program &program, const Params &params, const Cache &cache) {
    if (std::optional<ProgramDescription> known = known_description(program, params, cache)) return *known;
    const std::string text = run_describe(program, params);
    cache.publish(
        "descriptions", description_key(program, params),
        [&](const fs::path &folder) {
            write_file_atomic(folder / "description.json", text, 0600);
            return json{{"app", program.app}, {"program", program.id}}.dump();
        },
        true);
    return read_description(text);
}

/// Numbers in one spelling, so that "012" and "12" are one bundle.
std::string canonical(const std::string &type, const std::string &text) {
    const char *end = text.data() + text.size();
    if (long long n = 0; type == "int") {
        auto [at, error] = std::from_chars(text.data(), end, n);
        if (error == std::errc() && at == end) return std::to_string(n);
    } else if (float x = 0; type == "float") {
        auto [at, error] = std::from_chars(text.data(), end, x);
        if (error == std::errc() && at == end) return fmt::format("{}", x);
    }
    return text;
}

/// The machine in a bundle's key. Of a GPU's kernels it is the architecture alone: the host only launches them.
std::string machine_of(const StepConfig &step) {
    if (step.device != "cuda") return machine_id();
    struct utsname names {};
    uname(&names);
    return names.machine;
}

json parts_with(const ProgramDescription &description, const Program &program, const BundleRequest &request) {
    json params = json::object();
    for (const ProgramDescription::Param &p : description.params) {
        auto given = request.params.find(p.name);
        params[p.name] = canonical(p.type, given == request.params.end() ? p.value : given->second);
    }
    json parts = bundle_key(request.step);
    parts["format"] = 1, parts["program"] = program.id, parts["params"] = params,
    parts["machine"] = machine_of(request.step);
    return parts;
}

json parts_of(const Program &program, const BundleRequest &request, const Cache &cache) {
    return parts_with(described(program, request, cache), program, request);
}

struct Building {
    int kernels = 0, cached = 0;
};

/// A count in a line of progress; nothing: it is missing, or no count.
std::optional<int> count_in(const json &j, const char *name) {
    if (!j.is_object()) return std::nullopt;
    const auto at = j.find(name);
    if (at == j.end() || !at->is_number_unsigned() || at->get<uint64_t>() > INT_MAX) return std::nullopt;
    return at->get<int>();
}

/// Reads one line of the program's stdout; false where it is not about progress.
bool read_progress(std::string_view line, Building &state, const std::function<void(int, int, int)> &progress,
                   const ProgressWords &phase) {
    json j = json::parse(line, nullptr, false);
    if (!j.is_object()) j = json::object();
    const std::optional<int> done = count_in(j, "done"), total = count_in(j, "total"), cached = count_in(j, "cached");
    if (done && total && j.contains("phase") && j["phase"].is_string()) {
        if (phase) phase(fmt::format("{}: {} of {}", j["phase"].get<std::string>(), *done, *total));
        return true;
    }
    if (!done || !total || !cached) {
        tell("{}", line);  // printed by the user's own program
        return false;
    }
    state = {*total, *cached};
    if (progress) progress(*done, state.kernels, state.cached);
    return true;
}

Building build_bundle(const Program &program, const BundleRequest &request, const Cache &cache, const fs::path &folder,
                      const std::function<void(int, int, int)> &progress, const ProgressWords &phase) {
    Building state;
    ProcessOptions options{.argv = {program.path, "--bundle", folder, "--store", cache.kernels()},
                           .program = descriptor_of(program)};
    add_request(options.argv, request);
    // The program limits the time of each kernel and reports each: a longer silence is an endless loop.
    options.silence_limit = 1.5 * program_time_limit();
    options.memory_limit = memory_share(int(sysconf(_SC_NPROCESSORS_ONLN)));
    options.on_line = [&](std::string_view line) { return read_progress(line, state, progress, phase); };
    const ProcessResult result = run_process(options);
    if (!result.ok()) {
        throw_refusal(result);
        fail("{} did not build its kernels: {}. Its last words:\n{}", program.app, how_it_ended(result),
             last_words(result));
    }
    if (!result.errors.empty()) tell("{}", last_lines(result.errors, 8000));
    for (const char *file : {"plan.json", "kernels.so"})
        if (!fs::exists(folder / file)) fail("{} ended without an error but wrote no {}", program.app, file);
    return state;
}

}  // namespace

ProgramDescription described(const Program &program, const BundleRequest &request, const Cache &cache) {
    if (!program.path.empty()) return describe(program, request.params, cache);
    // Defaults may depend on the parameters: without a description for exactly these there is no bundle of them either.
    if (auto known = known_description(program, request.params, cache)) return *known;
    fail_not_compiled(program.app, parts_with(program.description, program, request), cache);
}

int descriptor_of(const Program &program) { return program.file ? program.file->descriptor() : -1; }

std::string last_words(const ProcessResult &result) {
    const std::string text = last_lines(result.errors, 4000);
    return text.empty() ? "It said nothing." : text;
}

void throw_refusal(const ProcessResult &result) {
    if (!result.told_why()) return;
    if (result.status == 2) throw UsageError(last_words(result));
    throw Error(last_words(result));
}

void add_params(std::vector<std::string> &argv, const Params &params) {
    for (auto &[name, value] : params) {
        argv.push_back("--param");
        argv.push_back(name + "=" + value);
    }
}

void add_request(std::vector<std::string> &argv, const BundleRequest &request) {
    add_params(argv, request.params);
    const std::vector<std::string> step = program_arguments(request.step);
    argv.insert(argv.end(), step.begin(), step.end());
    if (request.any_size) argv.push_back("--any-size");
    if (!request.lines_from.empty()) argv.insert(argv.end(), {"--lines-from", request.lines_from});
}

bool is_path(const std::string &app) { return has_ending_of_source(app) || app.find('/') != std::string::npos; }

Program find_program(const std::string &app, const Cache &cache) {
    Program program;
    program.app = app;
    const bool compiled = is_path(app) && !has_ending_of_source(app) && runnable(app);
    if (!has_compiler() && !compiled) {
        program.id = compiled_program_id(app, machine_id(), cache);
        if (auto known = known_description(program, {}, cache))
            program.description = *known;
        else
            fail("{} has bundles of {}, but not the program's description (descriptions/): copy the whole cache",
                 cache.folder().string(), app);
        if (is_path(app)) tell("note: this build has no compiler: {} runs as it was compiled into the cache", app);
        return program;
    }
    if (is_path(app) && !compiled) program.file = user_program(app, cache);
    program.path = program.file ? program.file->path() : compiled ? fs::absolute(app) : built_in_program(app);
    program.id = program_id(program.file ? program.file->sha256() : sha256_file(program.path));
    program.description = describe(program, {}, cache);
    return program;
}

std::string bundle_parts(const Program &program, const BundleRequest &request, const Cache &cache) {
    return parts_of(program, request, cache).dump();
}

std::optional<CacheEntry> find_bundle(const Cache &cache, const std::string &key) {
    std::optional<CacheEntry> entry = cache.find("bundles", key);
    if (!entry) return entry;
    const auto plan = entry->files.find("plan.json");
    const std::string format = plan == entry->files.end() ? "?" : plan_format(plan->second->read());
    if (format == std::to_string(Plan::format)) return entry;
    if (!has_compiler())
        fail("{}: its plan has format {}, but this command reads {}: compile it with this version of Cryolite, and "
             "copy the cache again",
             entry->folder.string(), format, Plan::format);
    tell("cache: bundles/{} has a plan of format {}, expected {}; it is made again", key.substr(0, 16), format,
         Plan::format);
    try {
        cache.remove("bundles", key);
    } catch (const Error &) {  // publishing replaces it, or says why it cannot
    }
    return std::nullopt;
}

BundleResult get_bundle(const Program &program, const BundleRequest &request, const Cache &cache,
                        const std::function<void(int, int, int)> &progress, const ProgressWords &phase) {
    const auto start = std::chrono::steady_clock::now();
    const json parts = parts_of(program, request, cache);
    const std::string key = sha256_hex(parts.dump());
    BundleResult result;
    auto use = [&](const CacheEntry &entry) { result.folder = entry.folder, result.files = entry.files; };
    auto found = [&] {
        const std::optional<CacheEntry> entry = find_bundle(cache, key);
        if (!entry) return false;
        use(*entry);
        result.kernels = result.cached = count_in(json::parse(entry->about, nullptr, false), "kernels").value_or(0);
        return true;
    };
    if (!found()) {
        if (program.path.empty()) fail_not_compiled(program.app, parts, cache);
        const CacheLock lock = cache.lock("bundles", key, "another process that compiles " + program.app);
        const CacheLock kernels = cache.lock_kernels(true);
        if (!found())
            use(cache.publish("bundles", key, [&](const fs::path &folder) {
                const Building b = build_bundle(program, request, cache, folder, progress, phase);
                result.kernels = b.kernels, result.cached = b.cached;
                return json{{"app", program.app}, {"kernels", b.kernels}, {"parts", parts}}.dump();
            }));
    }
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

}  // namespace cryolite
