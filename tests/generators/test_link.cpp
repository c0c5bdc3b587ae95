// What a library of kernels expects of the process that loads it, and what comes with it.

#include "generators/codegen/link.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>

#include "generators/codegen/child.h"
#include "generators/codegen/kernel_store.h"

namespace cryolite::test {

using namespace compiler;

namespace {

namespace fs = std::filesystem;

struct Linked {
    fs::path folder;

    /// A kernel y(x) = value(x) with a stored temporary, its loops parallel or blocks of a device.
    Linked(Halide::Expr (*value)(Halide::Expr), Halide::Target target) {
        using namespace Halide;
        std::string name = (fs::temp_directory_path() / "cryolite-link-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        folder = name;
        for (auto f : {Target::NoRuntime, Target::UserContext, Target::NoBoundsQuery, Target::NoAsserts})
            target.set_feature(f);
        const CompileOptions options{.store = folder / "store", .progress = {}};
        const std::string key(32, 'a');
        run_children(
            1, 1, 60,
            [&](int) {
                Func y("y"), t("t");
                Var x("x"), b("b"), i("i");
                t(x) = sqrt(cast<float>(x));
                y(x) = t(x) + t(x / 2) + cast<float>(value(x));
                t.compute_root();
                if (target.has_gpu_feature())
                    y.gpu_tile(x, b, i, 16), t.gpu_tile(x, b, i, 16);
                else
                    y.parallel(x);
                y.output_buffer().dim(0).set_bounds(0, 100000);
                KernelStore(options.store).put(key, [&](const std::string &path) {
                    y.compile_to_object(path, {}, "cryolite_" + key, target);
                });
                return "";
            },
            [](int, const ChildResult &r) { REQUIRE(r.error == ""); });
        link_kernels({{{key, "", "", "", {}}}, 1, 0}, options, target, folder);
    }
    ~Linked() { fs::remove_all(folder); }
    bool has(const char *file) const { return fs::exists(folder / file); }
    /// "", or what the loader says.
    std::string load(const char *file, int how) const {
        return dlopen((folder / file).c_str(), RTLD_NOW | how) ? "" : dlerror();
    }
};

Halide::Expr plain(Halide::Expr x) { return x; }
Halide::Expr printed(Halide::Expr x) { return print_when(x == 54321, x, "is there"); }

}  // namespace

TEST_CASE("link: kernels of the CPU come alone") {
    const Linked kernels(plain, Halide::get_host_target());
    CHECK(kernels.has("kernels.so"));
    CHECK(!kernels.has("halide_runtime.so"));
}

TEST_CASE("link: a layer that prints, and a device, bring what they call of Halide's runtime") {
    const Halide::Target host = Halide::get_host_target();
    for (const bool device : {false, true}) {
        CAPTURE(device);
        const Linked kernels(device ? plain : printed, device ? host.with_feature(Halide::Target::OpenCL) : host);
        CHECK(kernels.has("halide_runtime.so"));
        CHECK(kernels.load("halide_runtime.so", RTLD_GLOBAL) == "");
        CHECK(kernels.load("kernels.so", RTLD_LOCAL) == "");
    }
}

}  // namespace cryolite::test
