// cryolite new NAME: a small project of the user's own, from the templates in apps/cryolite/new_project.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/cli/version.h"
#include "apps/cryolite/commands/template_file.h"
#include "apps/cryolite/inputs/run_data.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

/// The name becomes that of a folder, of CMake's targets, and stands in C++ texts.
void check_project_name(const std::string &name) {
    static const std::set<std::string> targets = {
        "all",     "clean",   "default_target", "depend",     "edit_cache",    "gradients", "help",
        "install", "package", "package_source", "preinstall", "rebuild_cache", "test",      "list_install_components"};
    const auto legal = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    if (name.empty() || name.size() > 40 || !(name[0] >= 'a' && name[0] <= 'z') || !std::ranges::all_of(name, legal))
        fail_usage(
            "{} cannot be the name of a project: expected at most 40 small letters, digits and _, a letter first, "
            "such as my_model",
            shown(name));
    if (targets.contains(name)) fail_usage("{} is a target that CMake has already: use another name", name);
}

/// The whole project appears at once, or nothing does.
void write_project(const std::string &name, const fs::path &folder) {
    TemporaryFolder made(folder);
    const Marks marks = {{"@NAME@", name}, {"@VERSION@", CRYOLITE_VERSION}};
    for (const std::string file : {"CMakeLists.txt", "README.md", "model.cpp", "train.cpp", "test.sh"})
        write_file_atomic(made.path() / file, filled_template("new_project", file, marks),
                          file.ends_with(".sh") ? 0755 : 0644);
    write_file_atomic(made.path() / "data.txt", read_file(source_path("apps/gpt/data/tinyshakespeare.txt")));
    if (!made.publish()) fail_usage("{} is there already: name another folder with --out", folder.string());
}

}  // namespace

int run_new(const std::vector<std::string> &arguments) {
    CLI::App app{"Writes a small project: a layer, a model, a schedule, a loop, a test.", "cryolite new"};
    std::string name, out;
    app.add_option("NAME", name, "of the project, as my_model")->required();
    app.add_option("--out", out, "its folder (NAME)")->type_name("DIR");
    read_line(app, arguments, "new");
    check_project_name(name);
    const fs::path folder = fs::absolute(out.empty() ? name : out).lexically_normal();
    if (is_there(folder)) fail_usage("{} is there already: name another folder with --out", folder.string());
    write_project(name, folder);
    tell("{}: build it with\n    cmake -S {} -B {}/build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build {}/build\n"
         "where PREFIX is an installed Cryolite and cmake is 3.28 or newer; see its README.md",
         folder.string(), folder.string(), folder.string(), folder.string());
    return 0;
}

}  // namespace cryolite
