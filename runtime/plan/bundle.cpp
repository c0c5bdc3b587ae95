#include "runtime/plan/bundle.h"

#include "bundle/plan_json.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr const char *plan_file = "plan.json", *library_file = "kernels.so", *halide_file = "halide_runtime.so";

OpenFiles files_in(const fs::path &folder) {
    OpenFiles files;
    for (const char *name : {plan_file, library_file, halide_file})
        if (name != halide_file || fs::exists(folder / name)) files[name] = OpenFile::at(fs::absolute(folder) / name);
    return files;
}

Plan plan_of(const OpenFiles &files, const std::map<std::string, DialectChoice> &dialects) {
    for (const char *name : {plan_file, library_file})
        if (!files.contains(name))
            fail("the bundle {} has no {}", files.empty() ? "" : files.begin()->second->path().parent_path().string(),
                 name);
    const OpenFile &file = *files.at(plan_file);
    Plan p = read_plan(file.read(), file.path().string());
    p.choose(dialects);
    return p;
}

}  // namespace

Plan load_plan(const fs::path &path) { return read_plan(read_file(path), path.string()); }

Bundle::Bundle(const fs::path &folder, const std::map<std::string, DialectChoice> &dialects)
    : Bundle(files_in(folder), dialects) {}

Bundle::Bundle(OpenFiles files, const std::map<std::string, DialectChoice> &dialects)
    : files_(std::move(files)), plan(plan_of(files_, dialects)) {
    // It is never unloaded. Where several bundles bring one, all use the functions and the data of the first.
    if (const auto halide = files_.find(halide_file); halide != files_.end())
        halide_.emplace(halide->second, "what the kernels need of Halide's runtime,", Library::For::everybody);
    library_.emplace(files_.at(library_file), "the kernels");
    for (const PlanKernel &k : plan.kernels) {
        if (k.symbol.empty()) {
            functions_.push_back(nullptr);
            continue;
        }
        void *f = library_->symbol(k.symbol + "_argv");
        if (!f) fail("{} has no kernel {}", files_.at(library_file)->path().string(), k.symbol);
        functions_.push_back(reinterpret_cast<Function>(f));
    }
}

}  // namespace cryolite
