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
    fs::create_directories(s.out);
    // The plan is written last, so that a folder with a plan has all files.
    const auto put = [&](const std::string &name, const OpenFile &file) {
        write_file_atomic(s.out / name, file.read());
    };
    for (const auto &[name, file] : built.files)
        if (name != "plan.json") put(name, *file);
    write_file_atomic(s.out / "config.toml", config_toml(s));
    put("plan.json", *built.files.at("plan.json"));
    progress.say(fmt::format("{}: {} kernels of {}", s.out.string(), built.kernels, model_name(request)));
    return 0;
}

}  // namespace cryolite
