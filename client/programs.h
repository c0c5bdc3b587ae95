#pragma once
// Generator programs as the command sees them: what they say of their model, and the bundles they
// build.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bundle/program_description.h"
#include "bundle/step_config.h"
#include "runtime/cache/cache.h"
#include "runtime/system/process.h"

namespace cryolite {

/// The app of a command that names none.
constexpr const char *default_app = "gpt";

struct Program {
    std::string app;  ///< as the user named it: "gpt", "my_model.cpp"
    fs::path path;    ///< the executable; empty: there is none, this build has no compiler (without_compiler.h)
    std::shared_ptr<const OpenFile> file = nullptr;  ///< from the cache: open, as it was checked; this file runs
    std::string id;  ///< digest of its content: changes when the model, a schedule or the compiler changes
    ProgramDescription description;  ///< what `PROGRAM --describe` printed
};

/// Whether APP is the path of a program or its source, not the name of one of those that are built here.
bool is_path(const std::string &app);

/// APP ("gpt", "digits", ...: built beside this command), the path of a generator program, or that of a user's own
/// .cpp, which is compiled now or found compiled in the cache. Errors: no such app (names those there are); the
/// compiler's own message with its line; a program that crashes or runs past its time limit while
/// it describes itself. A build without the compiler's half takes the program of the newest bundle of APP in the cache;
/// errors then say what the cache lacks and how to get it, here and in `get_bundle`.
Program find_program(const std::string &app, const Cache &cache);

struct BundleRequest {
    std::map<std::string, std::string>
        params;                   ///< generator parameters given, NAME -> text; the batch is that of one worker
    StepConfig step = {};         ///< the program gets the settings that a bundle depends on
    bool any_size = false;        ///< also where it does not fit into this machine's memory: to look at, not to run
    std::string lines_from = {};  ///< the file that the step's lines are from, as errors call it; empty: none
};

/// What the program says of its model with the parameters of the request, on which other defaults and the model's
/// inputs may depend. Errors: it refuses one (UsageError); it crashes; a build without a compiler has no description.
ProgramDescription described(const Program &program, const BundleRequest &request, const Cache &cache);

struct BundleResult {
    fs::path folder;  ///< plan.json and kernels.so
    OpenFiles files;  ///< the same as they were checked: load these
    int kernels = 0;  ///< distinct kernels of the bundle
    int cached = 0;   ///< of these, not compiled by this process
    double seconds = 0;
};

/// Adds parameters of a model to the command line of its program.
void add_params(std::vector<std::string> &argv, const std::map<std::string, std::string> &params);

/// Adds a request's parameters and settings to the command line.
void add_request(std::vector<std::string> &argv, const BundleRequest &request);

/// The descriptor of a program of the cache; -1: it is run by its path.
int descriptor_of(const Program &program);
/// The end of what a program wrote to stderr.
std::string last_words(const ProcessResult &result);
/// If a program told why it failed, throws its own words: a UsageError where its status is 2.
void throw_refusal(const ProcessResult &result);

/// A digest of what the system says of the processor: what kernels for this host depend on.
std::string machine_id();

/// The JSON text of which a bundle's key is the digest: the program, every parameter with its value (defaults
/// included), the step's settings, the machine.
std::string bundle_parts(const Program &program, const BundleRequest &request, const Cache &cache);

/// The bundle of this key. One whose plan this command cannot read, because another version wrote it, is removed with a
/// message.
std::optional<CacheEntry> find_bundle(const Cache &cache, const std::string &key);

/// Called with a message about what a program does before its first kernel, where that takes seconds.
using ProgressWords = std::function<void(const std::string &)>;

/// The bundle from the cache, or built now by running the program (`progress(done, total, cached)`
/// meanwhile). Errors: the program's own message.
BundleResult get_bundle(const Program &program, const BundleRequest &request, const Cache &cache,
                        const std::function<void(int, int, int)> &progress, const ProgressWords &phase = {});

}  // namespace cryolite
