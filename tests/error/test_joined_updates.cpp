// Which updates share a kernel: those of small parameters on a GPU, and those that a line names. Each refusal beside
// the nearest line that is accepted.

#include "dsl/optimizers/lars.h"
#include "tests/support/chain.h"

namespace cryolite::test {

namespace {

const Halide::Target opencl = test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles}),
                     cuda = test_target({Halide::Target::CUDA, Halide::Target::CUDACapability80});

/// The parameters that are updated in the kernel of this one's update.
template <typename M, typename Rule>
std::string with(const Compiled<M, Rule> &c, const std::string &parameter, const std::string &entry = "step") {
    std::string names;
    const KernelId kernel = c.kernel(entry, "next(" + parameter + ")");
    REQUIRE(kernel);
    for (OpId id : c.program.kernels[kernel].ops)
        if (ir::is<ir::Update>(c.program.ops[id]))
            names += (names.empty() ? "" : " ") + c.program.parameters[ir::parameter_of(c.program.ops[id])].path;
    return names;
}
template <typename M = Chain, typename Rule = AdamW>
Compiled<M, Rule> on(const Halide::Target &target, StepOptions options = {}, Format format = fp32,
                     const typename Compiled<M, Rule>::Schedule &lines = {}) {
    return Compiled<M, Rule>({{"batch", "3"}}, lines, std::move(options), format, target);
}

const std::string vectors = "up.bias norm.weight norm.bias down.bias head.bias",
                  matrices = "up.weight down.weight head.weight";

/// How many operations of the step are norms.
template <typename M, typename Rule> int norms(const Compiled<M, Rule> &c) {
    int n = 0;
    for (OpId id : c.program.entries.at("step").ops) n += ir::is<ir::Norm>(c.program.ops[id]);
    return n;
}

/// One matrix and one vector that are no longer small beside others that are.
struct Large : Classifier {
    Linear up{"up", 5, 65537}, down{"down", 65537, 5}, head{"head", 5, classes};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(down(up(x))); }
};

}  // namespace

TEST_CASE("joined updates: on a GPU small parameters of one rule and format share a kernel, on the CPU none do") {
    for (const Halide::Target &gpu : {opencl, cuda}) {
        const auto c = on(gpu);
        CHECK(with(c, "up.bias") == vectors);
        CHECK(with(c, "up.weight") == matrices);
        CHECK(c.program.kernels[c.kernel("step", "next(up.bias)")].name == "next(head.bias) and 4 more");
    }
    CHECK(with(on(test_target()), "up.bias") == "up.bias");
    CHECK(with(on(opencl, {.groups = false}), "up.bias") == "up.bias");
    CHECK(with(on<Large>(opencl), "up.bias") == "up.bias");
    CHECK(with(on<Large>(opencl), "up.weight") == "up.weight");
    CHECK(with(on<Large>(opencl), "down.bias") == "down.bias head.bias");
}

TEST_CASE("joined updates: not those of another rule or format, of frozen parameters, shards, or elsewhere") {
    CHECK(with(on(opencl, {.freeze = {"norm.*"}}), "up.bias") == "up.bias down.bias head.bias");
    CHECK(with(on(opencl, {}, bf16), "up.bias") == "up.bias down.bias");  // stored in 16 bits, with masters
    CHECK(with(on(opencl, {}, bf16), "norm.bias") == "norm.weight norm.bias head.bias");
    CHECK(with(on(cuda, {.workers = 2}), "up.bias") == "up.bias");
    CHECK(with(on<Chain, Lars>(opencl), "up.bias") == "up.bias");
    CHECK(with(on(opencl, {.update = "backward"}), "up.bias") == "up.bias");
    CHECK(with(on(opencl, {.update = "backward"}), "norm.bias") == "norm.weight norm.bias");
    CHECK(with(on(opencl, {.update = "backward"}), "up.weight") == "up.weight");
    CHECK(with(on(opencl, {.update = "forward"}), "up.bias", "flush") == "up.bias");
}

TEST_CASE("joined updates: those that are left alone leave the others together") {
    const StepOptions faster{.param_groups = {ParamGroup::parse("*.bias=lr:0.5x").value()}};
    CHECK(with(on(opencl, faster), "up.bias") == "up.bias norm.bias down.bias head.bias");
    CHECK(with(on(opencl, faster), "norm.weight") == "norm.weight");
    const Lines apart = [](Chain &c, Step &s) { s(next(c.norm.g)).compute_root(); };
    CHECK(with(on(opencl, {}, fp32, apart), "norm.weight") == "norm.weight");
    CHECK(with(on(opencl, {}, fp32, apart), "up.bias") == "up.bias norm.bias down.bias head.bias");
}

TEST_CASE("joined updates: their norms are one") {
    CHECK(norms(on(test_target(), {.clip = true})) == 8);
    CHECK(norms(on(opencl, {.clip = true})) == 2);
    CHECK(norms(on(opencl, {}, fp16)) == 3);
    CHECK(norms(on(opencl, {.clip = true, .update = "backward"})) == 1 + 3);
    CHECK(norms(on<Chain, Lars>(opencl, {.clip = true})) == 16);
}

TEST_CASE("joined updates: arrays lie side by side, each where a kernel's can begin, in the same order") {
    for (Format format : {fp32, bf16, fp16}) {
        const auto c = on(opencl, {.clip = true}, format);
        const StepProgram &p = c.program;
        int parts = 0;
        for (const ir::Parameter &w : p.parameters) {
            std::vector<ValueId> arrays = {w.value, w.gradient};
            arrays.insert(arrays.end(), w.states.begin(), w.states.end());
            if (w.master) arrays.push_back(w.master);
            for (ValueId v : arrays) {
                const ir::Value &part = p.values[v];
                REQUIRE(part.part_of);
                CHECK(p.values[part.part_of].role == ir::Role::joint);
                CHECK(part.begin == p.values[w.value].begin);
                CHECK(part.begin * part.type.bytes() % c.machine.alignment == 0);
                for (const ir::Value &other : p.values)
                    if (&other != &part && other.part_of == part.part_of)
                        CHECK((other.begin + other.storage().size() <= part.begin ||
                               part.begin + part.storage().size() <= other.begin));
                parts++;
            }
        }
        CHECK(parts == 8 * 4 + (format == fp32 ? 0 : 5));
        CHECK(c.keys().size() == size_t(p.kernels.size()));  // they can be built
    }
}

TEST_CASE("joined updates: a line joins any two of one rule, also on the CPU") {
    const Lines line = [](Chain &c, Step &s) { s(next(*c.down.b)).compute_with(next(c.norm.g)); };
    accepted(line);
    for (const char *update : {"separate", "backward"}) {
        const auto c = on(test_target(), {.update = update}, fp32, line);
        CHECK(with(c, "norm.weight") == "norm.weight down.bias");
        CHECK(with(c, "up.bias") == "up.bias");
        CHECK(c.program.lines[0].verdict.is == ir::Verdict::legal);
        CHECK(c.keys().size() == size_t(c.program.kernels.size()));
    }
    const Lines chain = [](Chain &c, Step &s) {
        s(next(*c.up.b)).compute_with(next(*c.down.b)), s(next(*c.down.b)).compute_with(next(*c.head.b));
        s(next(c.norm.b)).compute_with(next(*c.up.b)), s(next(*c.head.b)).compute_root();
    };
    CHECK(with(on(test_target(), {}, fp32, chain), "head.bias") == "up.bias norm.bias down.bias head.bias");
    CHECK(with(on(opencl, {}, fp32, chain), "head.bias") == "up.bias norm.bias down.bias head.bias");
    CHECK(with(on(opencl, {}, fp32, chain), "norm.weight") == "norm.weight");
}

TEST_CASE("joined updates: lines that are not legal") {
    const Lines line = [](Chain &c, Step &s) { s(next(*c.up.b)).compute_with(next(*c.down.b)); };
    refused([](Chain &c, Step &s) { s(next(*c.up.b)).compute_with(next(*c.up.b)); },
            "s(next(up.bias)).compute_with(next(up.bias)) is refused: a stage cannot be placed at or with itself; the "
            "nearest legal line is "
            "s(next(up.bias)).compute_root()");
    refused(
        [](Chain &c, Step &s) { s(next(*c.up.b)).compute_with(next(c.up.W)); },
        "the updates of 'up.bias' and 'up.weight' differ in their decay: parameters of one dimension have none; the "
        "nearest legal line is s(next(up.bias)).compute_root()");
    refused(line, "each worker updates its shard of the sum", {.workers = 2});
    refused(line, "the gradients of 8 parts of a batch", {.parts = 8});
    refused(line, "'up.bias' is frozen", {.freeze = {"up.bias"}});
    refused(line, "'down.bias' is frozen", {.freeze = {"down.bias"}});
    refused(line, "differ in their rate or decay", {.param_groups = {ParamGroup::parse("up=lr:0.5x").value()}});
    refused([](Chain &c, Step &s) { s(next(*c.up.b)).compute_with(c.up); },
            "an update can be placed with another update or at forward, and in the backward pass by a line for its "
            "gradient, s(d(w)).compute_at(next(w))");
    refused([](Chain &c,
               Step &s) { s(d(c.down.W)).compute_at(next(c.down.W)), s(next(c.up.W)).compute_with(next(c.down.W)); },
            "the update of 'down.weight' is already placed with its gradient");
    refused(
        [](Chain &c, Step &s) { s(next(c.down.W)).compute_at(forward), s(next(c.up.W)).compute_with(next(c.down.W)); },
        "the update of 'down.weight' is already placed at forward");
    CHECK_ERROR((on<Chain, Lars>(test_target(), {}, fp32, line)),
                "the optimizer 'lars' takes norms of each parameter by itself, so their updates cannot share a kernel");
    CHECK_ERROR(on(opencl, {}, bf16, [](Chain &c, Step &s) { s(next(*c.up.b)).compute_with(next(c.norm.b)); }),
                "the updates of 'up.bias' and 'norm.bias' differ in their number format");
    const auto left = on(cuda, {.workers = 2}, fp32,
                         [](Chain &c, Step &s) { s(next(*c.up.b)).compute_with(next(*c.down.b)).where_legal(); });
    CHECK(left.program.lines[0].verdict.is == ir::Verdict::left_out);
    CHECK(left.program.lines[0].verdict.rule == "sum-of-workers");
}

}  // namespace cryolite::test
