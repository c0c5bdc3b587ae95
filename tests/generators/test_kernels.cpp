// Which kernels are the same kernel: keys, and what shares them.

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "dsl/models/gpt.h"
#include "generators/lowering/kernel/kernel_values.h"
#include "schedules/models/gpt.h"
#include "tests/support/kernels.h"
#include "tests/support/shapes.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

std::vector<std::pair<std::string, std::string>> gpt(int layers, int width = 10) {
    return {{"layers", std::to_string(layers)},
            {"heads", "5"},
            {"width", std::to_string(width)},
            {"context", "7"},
            {"batch", "2"},
            {"vocab", "11"}};
}
std::set<std::string> distinct(const std::vector<std::string> &keys) { return {keys.begin(), keys.end()}; }

std::vector<std::string> keys_of(int layers, Compiled<Gpt>::Schedule schedule = schedule_gpt, int width = 10) {
    return Compiled<Gpt>(gpt(layers, width), schedule).keys();
}

}  // namespace

TEST_CASE("keys: the same in every process, whatever was built before") {
    std::vector<std::string> first = keys_of(2);
    CHECK(keys_of(1).size() < first.size());
    CHECK(keys_of(2) == first);
    for (const std::string &k : first) CHECK(k.size() == 32);
}

TEST_CASE("keys: equal blocks share their kernels") {
    std::set<std::string> two = distinct(keys_of(2)), six = distinct(keys_of(6));
    CHECK(two == six);
    CHECK(distinct(keys_of(2, schedule_gpt, 15)) != two);
}

TEST_CASE("keys: one line of the schedule changes the kernels it touches, and no other") {
    auto kernels = [](const Compiled<Gpt>::Schedule &schedule) {
        Compiled<Gpt> c(gpt(2), schedule);
        std::map<std::string, std::string> by_key;
        std::vector<std::string> keys = c.keys();
        for (size_t k = 0; k < keys.size(); k++) by_key[keys[k]] = c.program.kernels[KernelId(int(k))].name;
        return by_key;
    };
    auto a = kernels(schedule_gpt), b = kernels([](Gpt &net, Step &s) {
                                        schedule_gpt(net, s);
                                        for (Block &block : net.blocks) s(block.gelu).compute_root();
                                    });
    std::set<std::string> gone, come;
    for (auto &[key, name] : a)
        if (!b.count(key)) gone.insert(name.substr(4));
    for (auto &[key, name] : b)
        if (!a.count(key)) come.insert(name.substr(4));
    CHECK(gone == std::set<std::string>{"mlp.c_fc + h.1.mlp.act"});
    CHECK(come == std::set<std::string>{"mlp.c_fc", "mlp.act"});
}

TEST_CASE("order: a large model's fused update waits until the pass back has read as much as caches hold") {
    // Kernels of the pass back between the gradient of a block's input and the update of its c_fc.
    auto between = [](int width) {
        Compiled<Gpt> c(gpt(4, width), schedule_gpt, {.update = "backward"});
        const std::vector<KernelId> &line = c.program.entries.at("step").kernels;
        auto at = [&](const char *part) {
            return int(
                std::ranges::find_if(
                    line, [&](KernelId k) { return c.program.kernels[k].name.find(part) != std::string::npos; }) -
                line.begin());
        };
        return at("next(h.3.mlp.c_fc.weight)") - at("d(h.3.ln_2)");
    };
    CHECK(std::abs(between(80)) <= 3);  // 1.2 MB of weights
    CHECK(between(1280) > 8);           // 315 MB: the kernels of a block
}

TEST_CASE(
    "prefetch: beside a fused product's sums, in dX of few rows across lanes, ahead in weights of forward products") {
    char folder[] = "/tmp/cryolite-test-XXXXXX";
    REQUIRE(mkdtemp(folder));
    const std::string path = std::string(folder) + "/stmt";
    const std::tuple<ModelArguments, Format, int> cases[] = {{few_rows_gpt(), fp32, 5},
                                                             {few_rows_gpt(), bf16, 5},
                                                             {whole_vectors_gpt("32"), fp32, 10},
                                                             {whole_vectors_gpt("32"), bf16, 10}};
    for (const auto &[model, format, most] : cases) {
        Compiled<Gpt> c(model, schedule_gpt, {.update = "backward"}, format);
        const bool across = most > 5 && (format == fp32 || c.machine.dot_products);
        const int expected = across ? most : 5;
        int with = 0, forwards = 0;
        for (const ir::Kernel &k : c.program.kernels) {
            BuiltKernel built = build_kernel(c.program, k, c.machine);
            built.pipeline.compile_to_lowered_stmt(path, built.inputs, Halide::Text, c.machine.target);
            const bool fused =
                std::ranges::any_of(std::array{"c_fc", "c_proj", "c_attn", "wte"}, [&](const std::string &layer) {
                    return k.name.find(layer + ".weight) + next(") != k.name.npos;
                });
            CAPTURE(k.name);
            std::stringstream text;
            text << std::ifstream(path).rdbuf();
            const bool of_input = across && computes_dx(c.program, k);
            auto fetches = [&](const char *into) { return text.str().find(into) != std::string::npos; };
            const bool enough_registers = c.machine.registers >= 32;
            CHECK(fetches(", 0, 3, 1)") == (fused || (of_input && enough_registers)));
            const bool forward = k.name.starts_with("h.0.attn.c_") || k.name.starts_with("h.0.mlp.c_") ||
                                 k.name.starts_with("wte.transposed");
            CHECK(fetches(", 0, 2, 1)") == (forward && format == fp32 && enough_registers));
            forwards += forward;
            if (of_input && format == bf16)
                CHECK(text.str().find("reinterpret<bfloat16x32>(x16(") != std::string::npos);
            with += fused || of_input;
        }
        CHECK(with == expected);
        CHECK(forwards == 5);
    }
    CHECK(unlink(path.c_str()) == 0);
    CHECK(rmdir(folder) == 0);
}

TEST_CASE("compile: a damaged kernel in the store is compiled again") {
    char folder[] = "/tmp/cryolite-test-XXXXXX";
    REQUIRE(mkdtemp(folder));
    struct Small : Classifier {
        Linear head{"head", 5, classes};
        Shape features() const override { return {5}; }
        Tensor forward(Tensor x) override { return head(x); }
    };
    Compiled<Small> c({});
    CompileOptions options{folder, 2, 60, {}};
    CompileReport first = compile_kernels(c.program, c.machine, options);
    CHECK(first.cached == 0);
    CHECK(first.distinct == int(distinct(c.keys()).size()));
    CompileReport second = compile_kernels(c.program, c.machine, options);
    CHECK(second.cached == first.distinct);
    CHECK(truncate((std::string(folder) + "/" + first.kernels[0].key + ".o").c_str(), 100) == 0);
    CompileReport third = compile_kernels(c.program, c.machine, options);
    CHECK(third.cached == first.distinct - 1);
    CHECK(compile_kernels(c.program, c.machine, options).cached == first.distinct);
    std::string remove = std::string("rm -rf ") + folder;
    CHECK(std::system(remove.c_str()) == 0);
}

namespace {

/// z = x + 2 y; its gradient is derived.
struct Weighted : Layer2 {
    using Layer2::Layer2;
    Func forward(Array x, Array y) override {
        Func z("z");
        Var c("c"), r("r");
        z(c, r) = x(c, r) + 2 * y(c, r);
        return z;
    }
};
struct GivenTwice : Classifier {
    Linear up{"up", 5, classes};
    Weighted weighted{"weighted"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override {
        Tensor h = up(x);
        return weighted(h, h);
    }
};

}  // namespace

TEST_CASE("a value that a layer is given twice has the gradient of each") {
    Compiled<GivenTwice> c({});
    const StepProgram &p = c.program;
    int inputs = 0;
    for (OpId id : p.ops.ids()) {
        const ir::Op &op = p.ops[id];
        const auto *gradient = ir::as<ir::InputGrad>(op);
        if (!gradient || p.layer(gradient->call).kind != "Weighted") continue;
        inputs++;
        const std::string first = in_child([&] {
            KernelValues values(p, {.name = op.name, .ops = {id}});
            for (KernelInputs::Image &image : values.in.images) {
                Halide::Buffer<float> ones(image.extents);
                ones.fill(1);
                image.param.set(ones);
            }
            Array d = values.in.arrays.at(op.writes[0].value);
            return fmt::format("{}", Halide::Buffer<float>(d.realize(d.shape.extents()))(0, 0));
        });
        // Of an adjoint of ones; what the other input gave is added.
        CHECK(first == std::to_string(1 + gradient->input + int(gradient->addends.size())));
    }
    CHECK(inputs == 2);
}

}  // namespace cryolite::test
