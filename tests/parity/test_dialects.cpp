// Steps whose products another dialect computes: the losses of the Halide kernels', and no thread more.

#include <fstream>
#include <set>

#include "dialects/dialect.h"
#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

bool dialect_is_here(const std::string &name) {
    if (load_dialect(name)) return true;
    fmt::print("skipped: {} is not built here; {}\n", name, how_to_get(name));
    return false;
}

int own_threads() {
    int n = 0;
    for (const auto &task : fs::directory_iterator("/proc/self/task")) n += task.exists();
    return n;
}

/// The libraries of OpenMP that this process has loaded.
std::set<std::string> openmp_libraries() {
    std::set<std::string> names;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        for (const char *name : {"libgomp.so", "libomp.so", "libiomp5.so"})
            if (line.find(name) != std::string::npos) names.insert(name);
    return names;
}

int products_by(const Plan &p, const std::string &name) {
    int n = 0;
    for (const PlanKernel &k : p.kernels) n += k.chosen >= 0 && k.dialects[size_t(k.chosen)].name == name;
    return n;
}

void check_losses(const json &args, const std::string &flags, int steps) {
    for (const DialectLine &d : dialect_table()) {
        if (d.device != "cpu" || !dialect_is_here(d.name)) continue;
        CAPTURE(flags);
        TrainingCase halide(args, flags), other(args, flags + " --dialect " + d.name);
        CHECK(products_by(halide.trainer.plan(), d.name) == 0);
        CHECK(products_by(other.trainer.plan(), d.name) > 5);
        halide.step(), other.step();
        const int threads = own_threads();
        for (int s = 1; s < steps; s++) {
            CAPTURE(s);
            const double expected = halide.step();
            CHECK(std::abs(other.step() - expected) < 1e-5 * expected);
        }
        CHECK(own_threads() == threads);
        CHECK(openmp_libraries() == std::set<std::string>{"libgomp.so"});
    }
}

/// A residual network of images of 13 x 13, a block in each stage.
struct ImageCase {
    static constexpr int images = 6, pixels = 13;

    explicit ImageCase(const std::string &flags)
        : device(make_device("cpu", 2)),
          trainer(compile_program("generators/vision",
                                  fmt::format("--param size={} --param width=5 --param layers=1 --param classes=7 "
                                              "--param batch={} {}",
                                              pixels, images, flags),
                                  folder / "bundle"),
                  *device) {
        trainer.initialise(7);
        trainer.set("lr", 1e-3);
        batch.targets.resize(images), batch.features.resize(images * pixels * pixels);
    }
    double step() {
        return trainer.step(
            [&]() -> const Batch & {
                for (float &x : batch.features) x = 10 * formula_weight("images", at++);
                for (int32_t &y : batch.targets) y = int32_t(formula_bits("images", at++) % 7);
                return batch;
            },
            1);
    }

    Scratch folder;
    std::unique_ptr<Device> device;
    Trainer trainer;
    Batch batch;
    uint64_t at = 0;
};

}  // namespace

TEST_CASE("dialects: a residual network's convolutions, 8 steps") {
    for (const DialectLine &d : dialect_table()) {
        if (d.device != "cpu" || !dialect_is_here(d.name)) continue;
        ImageCase halide(""), other("--dialect " + d.name);
        CHECK(products_by(halide.trainer.plan(), d.name) == 0);
        int convolutions = 0;
        for (const PlanKernel &k : other.trainer.plan().kernels)
            convolutions += k.chosen >= 0 && k.dialects[size_t(k.chosen)].product.window;
        CHECK(convolutions > 15);
        for (int s = 0; s < 8; s++) {
            CAPTURE(s);
            const double expected = halide.step();
            CHECK(std::abs(other.step() - expected) < 1e-5 * expected);
        }
        CHECK(openmp_libraries() == std::set<std::string>{"libgomp.so"});
    }
}

TEST_CASE("dialects: nano, 20 steps" * slow()) {
    check_losses(
        {{"layers", 4}, {"heads", 4}, {"width", 128}, {"context", 64}, {"batch", 12}, {"vocab", 65}, {"lr", 1e-3}},
        "--update auto", 20);
}

TEST_CASE("dialects: odd shapes, clipped, accumulated, two workers, rematerialised, the head by blocks") {
    json args = {{"layers", 2}, {"heads", 3},  {"width", 21}, {"context", 13},
                 {"batch", 2},  {"vocab", 37}, {"lr", 1e-2},  {"clip", 0.7}};
    check_losses(args, "--update backward", 8);
    args["accumulate"] = 3;
    check_losses(args, "--update forward", 8);
    args["workers"] = 2, args["accumulate"] = 1;
    check_losses(args, "--budget 600000", 8);
    args = {{"layers", 1}, {"heads", 2}, {"width", 32}, {"context", 40}, {"batch", 2}, {"vocab", 37}, {"lr", 1e-2}};
    check_losses(args, "--head-rows 32", 8);
}

TEST_CASE("dialects: one thread stays one") {
    for (const DialectLine &d : dialect_table()) {
        if (d.device != "cpu" || !dialect_is_here(d.name)) continue;
        const json args = {{"layers", 1}, {"heads", 2}, {"width", 64}, {"context", 64}, {"batch", 4}, {"vocab", 65}};
        Scratch folder;
        std::unique_ptr<Device> device = make_device("cpu", 1);
        Trainer t(compile_gpt(args, "--dialect " + d.name, folder / "bundle"), *device);
        t.initialise(1);
        const int threads = own_threads();
        Batch batch;
        batch.tokens.assign(256, 3), batch.targets.assign(256, 5);
        t.step([&]() -> const Batch & { return batch; }, 1);
        CHECK(own_threads() == threads);
    }
}

TEST_CASE("dialects: a plan whose product does not fit its arguments is refused") {
    const json args = {{"layers", 1}, {"heads", 2}, {"width", 16}, {"context", 8}, {"batch", 1}, {"vocab", 11}};
    Scratch folder;
    compile_gpt(args, "--dialect onednn", folder / "bundle");
    const std::string text = read_file(folder / "bundle/plan.json");
    for (auto [from, to] : {std::pair{"\"rows\":8", "\"rows\":9"},
                            {"\"op\":\"bias\"", "\"op\":\"exec\""},
                            {"\"form\":\"forward\",\"in\"", "\"form\":\"inverse\",\"in\""},
                            {"\"weight\":1", "\"weight\":99"}}) {
        CAPTURE(from);
        std::string bad = text;
        REQUIRE(bad.find(from) != std::string::npos);
        bad.replace(bad.find(from), std::string(from).size(), to);
        write_file_atomic(folder / "plan.json", bad, 0600);
        std::string error;
        try {
            load_plan(folder / "plan.json");
        } catch (const Error &e) {
            error = e.what();
        }
        CAPTURE(error);
        CHECK(error.find("is damaged") != std::string::npos);
    }
}

}  // namespace cryolite::test
