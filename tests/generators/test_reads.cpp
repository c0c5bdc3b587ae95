// What an operation reads follows from its layer as it is built, whatever others of its type read;
// a kernel reads no more.

#include <algorithm>

#include "dsl/optimizers/lars.h"
#include "generators/driver/memory/budget.h"
#include "generators/passes/placement/memory.h"
#include "tests/support/curves.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Curves : Classifier {
    Linear a{"a", 5, 5}, b{"b", 5, 5}, head{"head", 5, classes};
    Curve straight{"straight", false}, bent{"bent", true};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(straight(b(bent(a(x))))); }
};

/// A norm that a product computes in its own loops, and never stores.
struct Inlined : Curves {
    LayerNorm norm{"norm", 5};
    Tensor forward(Tensor x) override { return head(straight(b(norm(bent(a(x)))))); }
};
/// Two weights of one name and shape: products read the second in 16 bits, so that it has a master.
struct Alike : TextModel {
    Embedding table{"table", 5, 6};
    Linear head{"head", 6, 5, LinearOptions{.in_innermost = true}};
    Tensor forward(Tensor x) override { return head(table(x)); }
};

void inline_norm(Inlined &m, Step &s) { s(m.norm).compute_at(m.b); }

std::string described(const StepProgram &p, const Machine &m) {
    return error_of([&] { describe_kernels(p, m, {}); });
}

/// Whether every kernel of a step that reads a value comes before the first that writes it.
bool read_before(const StepProgram &p, const CompileReport &report, ValueId value) {
    bool written = false;
    for (KernelId k : p.entries.at("step").kernels)
        for (const KernelArgument &a : report.kernels[size_t(k.index)].arguments) {
            if (a.value != value) continue;
            if (!a.written && written) return false;
            written |= a.written;
        }
    return written;
}

}  // namespace

TEST_CASE("reads: two layers of one type that differ in a data member") {
    auto built_again = [](Curves &m, Step &s) { s(m.a).store_at(forward), s(m.b).store_at(forward); };
    Compiled<Curves> c({{"batch", "3"}}, built_again);
    // The gradient of what is bent reads its input, which is rematerialised for that; of what is straight, nothing.
    CHECK(bool(c.kernel("step", "a again")));
    CHECK(!c.kernel("step", "b again"));
    CHECK(described(c.program, c.machine) == "");
}

TEST_CASE("reads: a product that is never stored has no reader in the backward pass") {
    // Of two layers after products, the gradient of one reads its input and that of the other reads nothing.
    {
        Compiled<Curves> c({{"batch", "3"}}, [](Curves &m, Step &s) { s(m.b).compute_at(m.straight); });
        CHECK(described(c.program, c.machine) == "");
    }
    CHECK_ERROR(Compiled<Curves>({{"batch", "3"}}, [](Curves &m, Step &s) { s(m.a).compute_at(m.bent); }),
                "s(a).compute_at(bent) is refused: 'd(a)' reads it too, in another kernel, so it must be stored; the "
                "nearest legal line is "
                "s(a).compute_with(bent)");
}

TEST_CASE("reads: a kernel that reads more than its operations did is refused, with the layer") {
    Compiled<Curves> c({{"batch", "3"}}, [](Curves &, Step &) {});
    CHECK(described(c.program, c.machine) == "");
    c.model->straight.bent = true;
    CHECK_ERROR(fail("{}", described(c.program, c.machine)),
                "the kernel 'd(b)' of [straight] Curve reads 'b', but did not when the step was planned");
    c.model->straight.bent = c.model->bent.bent = false;  // reads less
    CHECK(described(c.program, c.machine) == "");
}

TEST_CASE("reads: of two weights that are alike, the norm of the one with a master reads it") {
    Compiled<Alike, Lars> c({{"batch", "2"}, {"context", "3"}, {"vocab", "5"}}, {}, {}, fp16);
    const StepProgram &p = c.program;
    const auto of = [&](const char *path) { return *std::ranges::find(p.parameters, path, &ir::Parameter::path); };
    const ir::Parameter table = of("table.weight"), head = of("head.weight");
    REQUIRE((table.shape == head.shape && !table.master && head.master));
    for (const ir::Op &op : p.ops)
        if (op.name == "norm(old head.weight)") CHECK(std::ranges::count(op.reads, head.master, &ir::Ref::value) == 1);
    CHECK(described(p, c.machine) == "");
}

TEST_CASE("reads: who computes for itself what is never stored reads what that takes") {
    StepOptions options;
    options.workers = 2;  // updates as soon as they can
    Compiled<Inlined> c({{"batch", "3"}}, inline_norm, options);
    const StepProgram &p = c.program;
    const ValueId gain = p.parameters[p.parameter_ids.at(&c.model->norm.g)].value;
    for (const ir::Op &op : p.ops)
        if (op.name == "d(b.weight)") CHECK(std::ranges::count(op.reads, gain, &ir::Ref::value) == 1);
    CHECK(read_before(p, describe_kernels(p, c.machine, {}), gain));
}

TEST_CASE("reads: a budget keeps what others are computed from that are never stored") {
    Compiled<Inlined> whole({{"batch", "512"}}, inline_norm);
    const int64_t bytes = step_bytes(whole.program);
    const StepProgram p = lower_within(bytes - 1000, {.head_rows = 0}, [&](const StepOptions &o) {
        return lower({.model = *whole.model,
                      .optimizer = whole.optimizer,
                      .schedule = whole.step,
                      .options = o,
                      .oracle = reads_by_building(whole.machine, 2, 60)});
    });
    CHECK(std::ranges::count_if(p.values, [](const ir::Value &v) { return bool(v.remat); }) > 0);
    CHECK(described(p, whole.machine) == "");
}

}  // namespace cryolite::test
