#include "apps/cryolite/export_library/toolchain.h"

#include <algorithm>
#include <set>

#include "apps/cryolite/session/target_choice.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"

namespace cryolite {

Toolchain::Toolchain(const std::string &machine) {
    if (machine.empty() || machine == this_machine()) {
        packages_ = "gcc libc6-dev";
    } else {
        prefix_ = machine + "-linux-gnu-";
        std::string name = machine;
        std::ranges::replace(name, '_', '-');
        packages_ = fmt::format("gcc-{}-linux-gnu libc6-dev-{}-cross", name, name == "aarch64" ? "arm64" : "amd64");
    }
    run({compiler(), "-fsyntax-only", "-include", "stdio.h", "-x", "c", "/dev/null"}, packages_);
}

std::string Toolchain::make_variables() const {
    return prefix_.empty() ? "" : fmt::format("CC = {}\nAR = {}ar\n", compiler(), prefix_);
}

void Toolchain::run(std::vector<std::string> argv, const std::string &packages) const {
    const std::string tool = argv[0];
    ProcessResult result;
    try {
        result = run_process({.argv = std::move(argv), .time_limit = 120});
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {
        fail("{}: export needs it; install {}", e.what(), packages);
    }
    if (result.ok()) return;
    const bool no_library = result.errors.find("stdio.h") != std::string::npos;
    fail("{} failed: {}{}\n{}", tool, how_it_ended(result), no_library ? "; install " + packages : "",
         last_lines(result.errors, 4000));
}

bool Toolchain::accepts(const fs::path &source) const {
    return run_process({.argv = {compiler(), "-std=c99", "-fsyntax-only", source}, .time_limit = 120}).ok();
}

void Toolchain::show_only(const std::string &pattern, const fs::path &from, const fs::path &to) const {
    run({prefix_ + "objcopy", "--wildcard", "--keep-global-symbol=" + pattern, from, to}, "binutils");
}

void Toolchain::link_kernels(const Plan &plan, const Cache &cache, const fs::path &object) const {
    std::set<fs::path> objects;
    for (const PlanKernel &k : plan.kernels) objects.insert(cache.kernel(k.symbol));
    std::vector<std::string> link = {"ld.lld", "-r", "-o", object};
    link.insert(link.end(), objects.begin(), objects.end());
    run(link, "lld");
    // Several kernels bring the same helper functions, compiled for their target. These become local, so that kernels
    // of another target do not call them.
    show_only("cryolite_*_argv", object, object);
}

void Toolchain::build_library(const fs::path &folder, const std::string &name) const {
    const fs::path src = folder / "src", all = src / "all.o", whole = folder / (name + ".o");
    std::vector<fs::path> objects, made = {all, whole};
    for (const auto &entry : fs::directory_iterator(src)) {
        fs::path object = entry.path();
        if (object.extension() == ".c") {
            object.replace_extension(".o");
            run({compiler(), "-std=gnu11", "-O2", "-fPIC", "-ffp-contract=off", "-I", folder, "-c", entry.path(), "-o",
                 object},
                packages_);
            made.push_back(object);
        }
        if (object.extension() == ".o") objects.push_back(object);
    }
    std::ranges::sort(objects);
    std::vector<std::string> link = {"ld.lld", "-r", "-o", all};
    link.insert(link.end(), objects.begin(), objects.end());
    run(link, "lld");
    show_only(name + "_*", all, whole);
    run({prefix_ + "ar", "rcsD", folder / ("lib" + name + ".a"), whole}, "binutils");
    run({compiler(), "-shared", "-Wl,-z,noexecstack,-z,now,--no-undefined", "-o", folder / ("lib" + name + ".so"),
         whole, "-lm"},
        packages_);
    for (const fs::path &file : made) fs::remove(file);
}

}  // namespace cryolite
