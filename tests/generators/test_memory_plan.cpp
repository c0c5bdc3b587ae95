#include "schedules/models/gpt.h"

#include <algorithm>

#include "generators/codegen/compile.h"
#include "generators/driver/memory/budget.h"
#include "generators/passes/placement/memory.h"
#include "tests/support/shapes.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

bool is_remat(const ir::Op &op) {
    auto *f = ir::as<ir::Forward>(op);
    return f && f->when == ir::Forward::remat;
}

/// At each kernel of an entry, after the forward pass, no two activations that are written before and read at or after
/// it may lie on each other, and none is read before it is written.
void check_lives(const StepProgram &p, const std::string &entry) {
    std::vector<OpId> line = p.entries.at("forward").ops;
    if (entry != "forward") line.insert(line.end(), p.entries.at(entry).ops.begin(), p.entries.at(entry).ops.end());
    std::map<ValueId, std::pair<int, int>> life;
    std::vector<std::string> read_too_early;
    for (int t = 0; t < int(line.size()); t++) {
        const ir::Op &op = p.ops[line[size_t(t)]];
        auto touch = [&](const ir::Ref &r, bool written) {
            const ValueId v = p.base(r.value);
            if (!p.values[v].stored || !p.memory.offset.count(v)) return;
            if (!written && !life.count(v)) read_too_early.push_back(op.name + ": " + p.values[v].name);
            life.try_emplace(v, t, t).first->second.second = t;
        };
        for (const ir::Ref &r : op.reads) touch(r, false);
        for (const ir::Ref &w : op.writes) touch(w, true);
    }
    CHECK_MESSAGE(read_too_early.empty(), entry, ": ", fmt::format("{}", fmt::join(read_too_early, ", ")));
    int overlaps = 0;
    for (auto &[a, la] : life)
        for (auto &[b, lb] : life) {
            if (a >= b || la.first > lb.second || lb.first > la.second) continue;
            const int64_t x = p.memory.offset.at(a), y = p.memory.offset.at(b);
            const auto &[before, after] = la.first < lb.first ? std::pair(a, b) : std::pair(b, a);
            const OpId last = line[size_t(life.at(before).second)];
            // The adjoint of a loss may take the place of what the loss reads.
            if (x == y && ir::writes(p.ops[last], after) &&
                p.replaceable_input(p.kernels[p.ops[last].kernel]) == before &&
                life.at(after).first == life.at(before).second)
                continue;
            overlaps += x < y + p.values[b].bytes() && y < x + p.values[a].bytes();
        }
    CHECK(overlaps == 0);
    CHECK(life.size() > 5);
}

}  // namespace

TEST_CASE("memory plan: what lives at one time lies apart") {
    for (bool accumulate : {false, true}) {
        Compiled<Gpt> c(
            {{"layers", "3"}, {"heads", "5"}, {"width", "15"}, {"context", "7"}, {"batch", "3"}, {"vocab", "31"}},
            schedule_gpt, {.accumulate = accumulate});
        const ir::MemoryPlan &memory = c.program.memory;
        for (auto &[name, entry] : c.program.entries) check_lives(c.program, name);
        for (auto &[v, offset] : memory.offset) {
            CHECK(offset % 64 == 0);
            CHECK(offset + c.program.values[v].bytes() <= memory.bytes);
        }
        CHECK(memory.bytes < memory.unshared);
        CHECK(memory.offset.count(c.program.loss) == 1);
    }
}

TEST_CASE("memory plan: the adjoint of a loss takes the place of what the loss reads") {
    const ModelArguments sizes = {{"layers", "1"},  {"heads", "5"}, {"width", "15"},
                                  {"context", "7"}, {"batch", "3"}, {"vocab", "31"}};
    Compiled<Gpt> c(sizes, schedule_gpt);
    const StepProgram &p = c.program;
    const std::vector<Touched> touched = touched_by(p, describe_kernels(p, c.machine, {}));
    const auto marked = std::ranges::find_if(touched, [](const Touched &t) { return bool(t.replaceable); });
    REQUIRE(marked != touched.end());
    const ValueId logits = p.base(marked->replaceable), adjoint = p.base(marked->result);
    CHECK(p.values[adjoint].name == "d(wte.transposed)");
    const ir::MemoryPlan plan = place_activations(p, touched);
    CHECK(plan.offset.at(adjoint) == plan.offset.at(logits));

    auto lie_apart = [&](const std::vector<Touched> &by_kernel) {
        const ir::MemoryPlan other = place_activations(p, by_kernel);
        const int64_t x = other.offset.at(logits), y = other.offset.at(adjoint), bytes = p.values[logits].bytes();
        return (x + bytes <= y || y + bytes <= x) && other.unshared == plan.unshared;
    };
    std::vector<Touched> read_later = touched, unmarked = touched;
    read_later[size_t(p.entries.at("step").kernels.back().index)].values.push_back(logits);
    CHECK(lie_apart(read_later));
    for (Touched &t : unmarked) t.replaceable = {};
    CHECK(lie_apart(unmarked));
    // What the step takes is known before its kernels are compiled.
    CHECK(p.memory.bytes == plan.bytes);
}

TEST_CASE("memory plan: loops that nobody wrote may compute an element twice, so that a result replaces nothing") {
    Compiled<Gpt> c(
        {{"layers", "1"}, {"heads", "5"}, {"width", "15"}, {"context", "7"}, {"batch", "3"}, {"vocab", "31"}},
        [](Gpt &net, Step &s) { schedule_gpt(net, s), s.clear_loops(); });
    const std::vector<Touched> touched = touched_by(c.program, describe_kernels(c.program, c.machine, {}));
    CHECK(std::ranges::none_of(touched, [](const Touched &t) { return bool(t.replaceable); }));
    CHECK(c.program.memory.bytes == place_activations(c.program, touched).bytes);
}

TEST_CASE("memory plan: gradients lie among activations where one worker computes them anew in each step") {
    auto sizes = [](const char *width) -> ModelArguments {
        return {{"layers", "3"}, {"heads", "4"}, {"width", width}, {"context", "32"}, {"batch", "4"}, {"vocab", "64"}};
    };
    /// Its bytes, and how many of its gradients have memory of their own.
    auto made = [](const ModelArguments &sizes, const StepOptions &options) {
        Compiled<Gpt> c(sizes, schedule_gpt, options);
        const StepProgram &p = c.program;
        if (p.entries.contains("step")) check_lives(p, "step");
        int apart = 0;
        for (const ir::Parameter &w : p.parameters) {
            const ir::Value &g = p.values[w.gradient];
            const bool padded = g.storage().size() != g.shape.size(), in = p.memory.offset.contains(w.gradient);
            CHECK(!(padded && in));  // what pads a layout is zero from the beginning on
            apart += g.stored && !in && !padded;
        }
        return std::pair(step_bytes(p), apart);
    };
    const auto [one, none] = made(sizes("64"), {.clip = true});
    CHECK(none == 0);
    // They take the place of what the backward pass has read: less than the two apart.
    const auto [more, kept] = made(sizes("64"), {.clip = true, .accumulate = true});
    CHECK(one < more * 95 / 100);
    CHECK(kept > 30);
    CHECK(made(sizes("64"), {.workers = 2}).second == kept);
    CHECK(made(sizes("64"), {.update = "forward"}).second > 0);
    made(sizes("84"), {.clip = true});
}

TEST_CASE(
    "memory plan: what the blocks of a head read is rematerialised before the first of them, and not to evaluate") {
    for (bool accumulate : {false, true}) {
        auto lines = [](Gpt &m, Step &s) {
            schedule_gpt(m, s);
            s(m.head).compute_at(m.criterion, 32);
            s(m.norm).store_at(forward);
        };
        Compiled<Gpt> c(
            {{"layers", "2"}, {"heads", "5"}, {"width", "15"}, {"context", "32"}, {"batch", "3"}, {"vocab", "31"}},
            lines, {.accumulate = accumulate});
        for (auto &[name, entry] : c.program.entries) check_lives(c.program, name);
        auto again = [&](const char *entry) {
            return std::ranges::count_if(c.program.entries.at(entry).ops,
                                         [&](OpId id) { return is_remat(c.program.ops[id]); });
        };
        CHECK(again("step") == 1);
        CHECK(again("evaluate") == 0);
    }
}

TEST_CASE("memory plan: on a device, arrays begin where one of its buffers can") {
    Compiled<Gpt> c(
        {{"layers", "1"}, {"heads", "5"}, {"width", "15"}, {"context", "7"}, {"batch", "3"}, {"vocab", "31"}},
        schedule_gpt, {.clip = true}, fp32, test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles}));
    for (auto &[v, offset] : c.program.memory.offset) CHECK(offset % 512 == 0);
    int norms = 0;
    for (const ir::Op &op : c.program.ops) {
        auto *n = ir::as<ir::Norm>(op);
        if (!n) continue;
        CHECK(n->slot * 8 % 512 == 0);
        CHECK(n->slot < c.program.values[c.program.norms].shape[0]);
        norms++;
    }
    CHECK(norms > 10);
}

TEST_CASE("memory plan: a budget takes smaller chunks of the head where that costs least") {
    // 1024 rows of 17000 logits: blocks of 512 where nothing is asked.
    const ModelArguments wide{{"layers", "12"},   {"heads", "4"}, {"width", "128"},
                              {"context", "128"}, {"batch", "8"}, {"vocab", "17000"}};
    const Machine machine = Machine::of(test_target());
    AdamW rule;
    auto made = [&](StepProgram &p, int64_t bytes, StepOptions options, const Compiled<Gpt>::Schedule &lines,
                    const ModelArguments &sizes, Format format = fp32) {
        Arguments::current() = {sizes, {}};
        Gpt model;
        model.numerics(format);
        Step step(machine);
        schedule_gpt(model, step);
        lines(model, step);
        KnownLayers known;
        p = lower_within(bytes, options, [&](const StepOptions &o) {
            return lower({.model = model,
                          .optimizer = rule,
                          .schedule = step,
                          .options = o,
                          .oracle = reads_by_building(machine, 2, 60),
                          .known = &known});
        });
        return std::pair(p.chunks.rows, step_bytes(p));
    };
    auto nothing = [](Gpt &, Step &) {};
    auto blocks = [](Gpt &m, Step &s) { s(m.head).compute_at(m.criterion, 512); };
    StepProgram p[10];
    const auto [rows, bytes] = made(p[0], 0, {}, nothing, wide);
    CHECK(rows == 512);
    const int64_t fewer = bytes - (50 << 20);
    const auto [planned, fitting] = made(p[1], fewer, {}, nothing, wide);
    CHECK(planned == 256);
    CHECK(fitting <= fewer);
    CHECK(made(p[2], bytes, {}, nothing, wide).first == 512);
    // What was asked for stays, and more is rematerialised.
    CHECK(made(p[3], fewer, {.head_rows = 512}, nothing, wide).first == 512);
    CHECK(made(p[4], fewer, {}, blocks, wide).first == 512);
    auto again = [](const StepProgram &q) { return std::ranges::count_if(q.ops, is_remat); };
    CHECK(again(p[3]) > again(p[1]));
    // Of the residual stream every other sum stays.
    const ModelArguments deep{{"layers", "6"},    {"heads", "8"},  {"width", "512"},
                              {"context", "128"}, {"batch", "16"}, {"vocab", "64"}};
    made(p[8], made(p[9], 0, {}, nothing, deep, bf16).second - (100 << 20), {}, nothing, deep, bf16);
    std::set<ValueId> sums;
    for (const ir::Op &op : p[8].ops)
        if (op.name == "add again") sums.insert(p[8].calls[*ir::call_of(op)].output);
    CHECK(sums.size() > 3);
    for (ValueId sum : sums)
        for (ValueId v : p[8].calls[p[8].values[sum].producer].inputs) CHECK(!sums.count(v));
    // Lines that do not go with blocks keep them away.
    auto fused = [](Gpt &m, Step &s) { s(d(m.token.table)).compute_at(next(m.token.table)); };
    const ModelArguments small{{"layers", "12"},   {"heads", "4"}, {"width", "128"},
                               {"context", "128"}, {"batch", "8"}, {"vocab", "9000"}};
    const auto [whole, most] = made(p[6], 0, {}, fused, small);
    CHECK(whole == 0);
    CHECK(made(p[7], most - (20 << 20), {}, fused, small).first == 0);
}

TEST_CASE("memory plan: the head is computed in 256 chunks at most") {
    auto rows = [](const char *batch) {
        Compiled<Gpt> c(
            {{"layers", "1"}, {"heads", "1"}, {"width", "8"}, {"context", "64"}, {"batch", batch}, {"vocab", "11"}}, {},
            {.head_rows = 32});
        return c.program.chunks.rows;
    };
    CHECK(rows("64") == 32);
    CHECK(rows("1024") == 256);
}

TEST_CASE("memory plan: on a GPU the head is computed at once up to 1 GiB of logits, and above by 2048 rows") {
    auto rows = [](const char *batch, const Halide::Target &target) {
        Compiled<Gpt> c(
            {{"layers", "1"}, {"heads", "1"}, {"width", "8"}, {"context", "64"}, {"batch", batch}, {"vocab", "70001"}},
            {}, {}, fp32, target);
        return c.program.chunks.rows;
    };
    const Halide::Target gpu = test_target({Halide::Target::CUDA, Halide::Target::CUDACapability80});
    CHECK(rows("32", gpu) == 0);
    CHECK(rows("64", gpu) == 2048);
    CHECK(rows("32", test_target()) == 512);
}

}  // namespace cryolite::test
