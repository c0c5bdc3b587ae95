// cryolite compile APP --out DIR: the bundle of a training step in a folder of its own.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/target_choice.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Checks that this command may write to a folder: it is not there yet, is empty, or holds a bundle.
void check_bundle_folder(const fs::path &folder) {
    if (folder.empty()) fail_usage("compile needs --out DIR: the folder of the bundle, as in --out my_model.bundle");
    std::error_code error;
    if (!is_there(folder)) return;
    if (!fs::is_directory(folder, error)) fail_usage("--out {} is not a folder", folder.string());
    if (!fs::is_empty(folder, error) && !is_there(folder / "plan.json"))
        fail_usage("--out {} holds other files than a bundle's: name an empty folder, or one that is not there yet",
                   folder.string());
}

/// Writes the bundle's files. If one cannot be written, a folder that had no bundle is left as it was.
void write_bundle(const TrainSettings &s, const BundleResult &built) {
    const bool had_bundle = is_there(s.out / "plan.json"), made = fs::create_directories(s.out);
    std::vector<fs::path> written;
    auto write = [&](const std::string &name, const std::string &content) {
        write_file_atomic(s.out / name, content);
        written.push_back(s.out / name);
    };
    try {
        // The plan is written last, so that a folder with a plan has all files.
        for (const auto &[name, file] : built.files)
            if (name != "plan.json") write(name, file->read());
        write("config.toml", config_toml(s));
        write("plan.json", built.files.at("plan.json")->read());
    } catch (const Error &) {
        std::error_code ignored;
        for (const fs::path &file : written)
            if (!had_bundle) fs::remove(file, ignored);
        if (made) fs::remove(s.out, ignored);
        throw;
    }
}

}  // namespace

int run_compile(const std::vector<std::string> &arguments) {
    const Request request = read_request(Command::compile, arguments);
    TrainSettings s = understand(request);
    check_bundle_folder(s.out);
    data_of_step(s, request);  // as train does, since the data decide the vocabulary
    Progress progress;
    if (what_lacks_here(*targets_of(s.target)->front()).empty()) open_bundle(s, request, progress);
    const BundleResult built = compile_bundle(bundle_request(s), request, Cache(s.cache), progress);
    stop_deferring();
    write_bundle(s, built);
    progress.say(fmt::format("{}: {} kernels of {}", s.out.string(), built.kernels, model_name(request)));
    return 0;
}

}  // namespace cryolite
