// Each rule of the verifier, broken: it is named, with the pass after which.

#include "dsl/layers/activation.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "generators/ir/verify.h"
#include "tests/support/reads.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Net : Classifier {
    Linear up{"up", 6, 48}, down{"down", 48, 6}, head{"head", 6, classes};
    Relu relu{"relu"};
    LayerNorm norm{"norm", 6};
    Shape features() const override { return {6}; }
    Tensor forward(Tensor x) override { return head(down(relu(up(norm(x))))); }
};

using Break = std::function<void(StepProgram &)>;

/// What the verifier says of a whole program after `harm`.
std::string said(const Break &harm, const StepOptions &options = {}, bool remat = false) {
    return error_of([&] {
        Arguments::current() = {{{"batch", "4"}}, {}};
        const Machine machine = Machine::of(test_target());
        Step step(machine);
        Net model;
        AdamW rule;
        if (remat) step(model.relu).store_at(forward);
        StepProgram p =
            lower({.model = model, .optimizer = rule, .schedule = step, .options = options, .oracle = reads_of_kinds});
        ir::verify(p, "all");
        harm(p);
        ir::verify(p, "harm");
    });
}
std::string named(const std::string &rule) {
    return "after the pass harm, the step's program is broken: [" + rule + "]";
}

OpId find(const StepProgram &p, const std::string &entry, const std::string &name) {
    for (OpId id : p.entries.at(entry).ops)
        if (p.ops[id].name == name) return id;
    FAIL("no operation ", name);
    return {};
}
void to_end(StepProgram &p, const std::string &entry, const std::string &name) {
    const OpId id = find(p, entry, name);
    ir::Entry &e = p.entries.at(entry);
    std::erase(e.ops, id), e.ops.push_back(id);
    const KernelId k = p.ops[id].kernel;
    std::erase(e.kernels, k), e.kernels.push_back(k);
}

#define CHECK_BROKEN(rule, ...) CHECK_ERROR(fail("{}", said(__VA_ARGS__)), named(rule))

}  // namespace

TEST_CASE("verifier: a program as it is breaks no rule") {
    for (const StepOptions &options : {StepOptions{}, StepOptions{.clip = true, .update = "backward"},
                                       StepOptions{.workers = 3}, StepOptions{.accumulate = true, .update = "forward"}})
        CHECK(said([](StepProgram &) {}, options, true) == "");
}

TEST_CASE("verifier: each rule is named where it is broken") {
    CHECK_BROKEN("written-before-read", [](StepProgram &p) { to_end(p, "forward", "up"); });
    CHECK_BROKEN("written-before-read", [](StepProgram &p) { to_end(p, "step", "clip"); }, {.clip = true});
    CHECK_BROKEN("state-versions", [](StepProgram &p) { to_end(p, "step", "d(up.weight)"); });
    CHECK_BROKEN("state-versions", [](StepProgram &p) {
        // The adjoint of what `down` reads needs its weight as it was.
        to_end(p, "step", "d(relu)"), to_end(p, "step", "d(up)"), to_end(p, "step", "d(norm)");
        for (const char *w : {"up", "norm"})
            for (const char *of : {".weight", ".bias"}) to_end(p, "step", fmt::format("d({}{})", w, of));
        for (const char *w : {"up", "norm"})
            for (const char *of : {".weight", ".bias"}) to_end(p, "step", fmt::format("next({}{})", w, of));
    });
    CHECK_BROKEN("unstored-inside",
                 [](StepProgram &p) { p.values[p.ops[find(p, "forward", "up")].writes[0].value].stored = false; });
    CHECK_BROKEN("one-anchor", [](StepProgram &p) {
        ir::Entry &e = p.entries.at("forward");
        const KernelId a = p.ops[find(p, "forward", "up")].kernel, b = p.ops[find(p, "forward", "relu")].kernel,
                       c = p.ops[find(p, "forward", "down")].kernel;
        for (KernelId k : {b, c}) {
            for (OpId id : p.kernels[k].ops) p.kernels[a].ops.push_back(id), p.ops[id].kernel = a;
            std::erase(e.kernels, k);
            p.kernels[k].ops.clear();
        }
    });
    CHECK_BROKEN("entry-in-kernels", [](StepProgram &p) { p.entries.at("step").kernels.pop_back(); });
    CHECK_BROKEN(
        "remat-before-read", [](StepProgram &p) { to_end(p, "step", "relu again"); }, {}, true);
    CHECK_BROKEN("shards-cover", [](StepProgram &p) { p.parameters[ParamId(0)].shards[0].count--; }, {.workers = 2});
    CHECK_BROKEN("shards-cover",
                 [](StepProgram &p) {
                     std::erase(p.kernels[p.ops[find(p, "step", "next(up.weight)")].kernel].ops,
                                find(p, "step", "next(up.weight)"));
                     std::erase(p.entries.at("step").ops, find(p, "step", "next(up.weight)"));
                 },
                 {.workers = 2});
    auto piece = [](int64_t begin, ir::DataType type) {
        return [=](StepProgram &p) {
            const ValueId up = p.ops[find(p, "forward", "up")].writes[0].value;
            p.values.add({.name = "piece",
                          .role = ir::Role::activation,
                          .type = type,
                          .shape = {48, 2},
                          .part_of = up,
                          .begin = begin});
        };
    };
    CHECK(said(piece(96, ir::float32)) == "");
    CHECK_BROKEN("parts-inside", piece(97, ir::float32));
    CHECK_BROKEN("parts-inside", piece(0, ir::bfloat16));
    CHECK_BROKEN("parts-inside", [&](StepProgram &p) {
        piece(0, ir::float32)(p), piece(0, ir::float32)(p);
        p.values[ValueId(p.values.size() - 1)].part_of = ValueId(p.values.size() - 2);
    });
    CHECK_BROKEN("one-slot",
                 [](StepProgram &p) {
                     ir::as<ir::Norm>(p.ops[find(p, "step", "norm(up.weight)")])->slot =
                         ir::as<ir::Norm>(p.ops[find(p, "step", "norm(up.bias)")])->slot;
                 },
                 {.clip = true});
}

TEST_CASE("verifier: what a built kernel reads and writes lies within what its operations declare") {
    Compiled<Net> c({{"batch", "4"}}, {});
    const KernelId k = c.kernel("forward", "up");
    const ir::Op &up = c.program.ops[c.program.kernels[k].ops[0]];
    std::vector<ValueId> reads, writes;
    for (const ir::Ref &r : up.reads) reads.push_back(r.value);
    for (const ir::Ref &w : up.writes) writes.push_back(w.value);
    auto words = [&] {
        return error_of([&] { ir::verify_arguments(c.program, c.program.kernels[k], reads, writes); });
    };
    CHECK(words() == "");
    reads.push_back(c.program.output);
    CHECK_ERROR(fail("{}", words()),
                "[declared-arguments] a kernel's arguments lie within what its operations read and "
                "write: the kernel 'up' of [up] Linear reads 'output'");
    reads.pop_back();
    writes.push_back(c.program.loss);
    CHECK_ERROR(fail("{}", words()), "the kernel 'up' of [up] Linear writes 'loss'");
}

}  // namespace cryolite::test
