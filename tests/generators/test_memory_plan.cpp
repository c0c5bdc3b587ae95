#include "schedules/cpu/gpt.h"

#include <algorithm>

#include "generators/recompute.h"
#include "tests/support/shapes.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

/// What each kernel touches, without compiling it.
std::vector<CompiledKernel> described(const StepProgram &p) {
    std::vector<CompiledKernel> kernels(p.kernels.size());
    for (size_t k = 0; k < kernels.size(); k++)
        for (int s : p.kernels[k].stages) {
            auto add = [&](int part, bool written) {
                const int b = p.base(part);
                if (p.buffers[b].stored)
                    kernels[k].arguments.push_back({b, 0, p.buffers[b].type, {}, written});
            };
            for (int b : stage_reads(p, p.stages[s])) add(b, false);
            for (int b : p.stages[s].writes) add(b, true);
        }
    return kernels;
}

/// At each kernel of a plan, after the forward pass, no two activations that are written before and
/// read at or after it may lie on each other, and none is read before it is written.
void check_lives(const StepProgram &p, const MemoryPlan &memory,
                 const std::vector<CompiledKernel> &kernels, const std::string &plan) {
    std::vector<int> line = p.plans.at("forward");
    if (plan != "forward")
        line.insert(line.end(), p.plans.at(plan).begin(), p.plans.at(plan).end());
    std::map<int, std::pair<int, int>> life;
    std::vector<std::string> read_too_early;
    for (int t = 0; t < int(line.size()); t++)
        for (const KernelArgument &a : kernels[size_t(line[size_t(t)])].arguments)
            if (memory.offset.count(a.buffer)) {
                if (!a.written && !life.count(a.buffer)) read_too_early.push_back(p.kernels[size_t(line[size_t(t)])].name + ": " + p.buffers[size_t(a.buffer)].name);
                life.try_emplace(a.buffer, t, t).first->second.second = t;
            }
    CHECK_MESSAGE(read_too_early.empty(), plan, ": ", fmt::format("{}", fmt::join(read_too_early, ", ")));
    int overlaps = 0;
    for (auto &[a, la] : life)
        for (auto &[b, lb] : life) {
            if (a >= b || la.first > lb.second || lb.first > la.second) continue;
            int64_t x = memory.offset.at(a), y = memory.offset.at(b);
            overlaps += x < y + p.buffers[b].bytes() && y < x + p.buffers[a].bytes();
        }
    CHECK(overlaps == 0);
    CHECK(life.size() > 5);
}

}  // namespace

TEST_CASE("memory plan: what lives at one time lies apart") {
    for (bool accumulate : {false, true}) {
        Compiled<Gpt> c({{"layers", "3"},
                         {"heads", "5"},
                         {"width", "15"},
                         {"context", "7"},
                         {"batch", "3"},
                         {"vocab", "31"}},
                        schedule_gpt, {.accumulate = accumulate});
        std::vector<CompiledKernel> kernels = described(c.program);
        MemoryPlan memory = plan_memory(c.program, kernels);
        for (auto &[plan, list] : c.program.plans) check_lives(c.program, memory, kernels, plan);
        for (auto &[b, offset] : memory.offset) {
            CHECK(offset % 64 == 0);
            CHECK(offset + c.program.buffers[b].bytes() <= memory.bytes);
        }
        CHECK(memory.bytes < memory.unshared);
        CHECK(memory.offset.count(c.program.loss) == 1);
    }
}

TEST_CASE("memory plan: what the blocks of a head read is built again before the first of them, and not to evaluate") {
    for (bool accumulate : {false, true}) {
        auto lines = [](Gpt &m, Step &s) {
            schedule_gpt(m, s);
            s(m.head).compute_at(m.criterion, 32);
            s(m.norm).store_at(forward);
        };
        Compiled<Gpt> c({{"layers", "2"}, {"heads", "5"}, {"width", "15"}, {"context", "32"}, {"batch", "3"}, {"vocab", "31"}}, lines,
                        {.accumulate = accumulate});
        std::vector<CompiledKernel> kernels = described(c.program);
        MemoryPlan memory = plan_memory(c.program, kernels);
        for (auto &[plan, list] : c.program.plans) check_lives(c.program, memory, kernels, plan);
        auto again = [&](const char *plan) {
            return std::ranges::count_if(c.program.plans.at(plan), [&](int k) { return c.program.stages[c.program.kernels[k].stages[0]].again; });
        };
        CHECK(again("step") == 1);
        CHECK(again("evaluate") == 0);
    }
}

TEST_CASE("memory plan: on a device, arrays begin where one of its buffers can") {
    Compiled<Gpt> c({{"layers", "1"}, {"heads", "5"}, {"width", "15"}, {"context", "7"}, {"batch", "3"}, {"vocab", "31"}},
                    schedule_gpt, {.clip = true}, fp32, test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles}));
    MemoryPlan memory = plan_memory(c.program, described(c.program));
    for (auto &[b, offset] : memory.offset) CHECK(offset % 512 == 0);
    int norms = 0;
    for (const StageSpec &s : c.program.stages) {
        if (s.part != Part::norm) continue;
        CHECK(s.index * 8 % 512 == 0);
        CHECK(s.index < c.program.buffers[c.program.norms].shape[0]);
        norms++;
    }
    CHECK(norms > 10);
}

TEST_CASE("memory plan: a budget takes smaller blocks of the head where that costs least") {
    // 1024 rows of 17000 logits: blocks of 256 where nothing is asked.
    const ModelArguments wide{{"layers", "12"}, {"heads", "4"}, {"width", "128"}, {"context", "128"}, {"batch", "8"}, {"vocab", "17000"}};
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
        KnownReads known;
        make_step(p, options, bytes, [&](StepProgram &q, const StepOptions &o) {
            build_step(q, model, rule, o, step);
            analyse(q, machine, 2, 60, known);
            partition(q, o);
        });
        return std::pair(p.blocks.rows, kept_bytes(p) + predict_memory(p).bytes);
    };
    auto nothing = [](Gpt &, Step &) {};
    auto blocks = [](Gpt &m, Step &s) { s(m.head).compute_at(m.criterion, 256); };
    StepProgram p[10];
    const auto [rows, bytes] = made(p[0], 0, {}, nothing, wide);
    CHECK(rows == 256);
    const int64_t fewer = bytes - (50 << 20);
    const auto [planned, fitting] = made(p[1], fewer, {}, nothing, wide);
    CHECK(planned == 128);
    CHECK(fitting <= fewer);
    CHECK(made(p[2], bytes, {}, nothing, wide).first == 256);
    // What was asked for stays, and more is built again.
    CHECK(made(p[3], fewer, {.head_rows = 256}, nothing, wide).first == 256);
    CHECK(made(p[4], fewer, {}, blocks, wide).first == 256);
    auto again = [](const StepProgram &q) { return std::ranges::count_if(q.stages, &StageSpec::again); };
    CHECK(again(p[3]) > again(p[1]));
    CHECK(made(p[5], fewer, {.same_bits = true}, nothing, wide).first == 256);
    // Of the residual stream every other sum stays.
    const ModelArguments deep{{"layers", "6"}, {"heads", "8"}, {"width", "512"}, {"context", "128"}, {"batch", "4"}, {"vocab", "64"}};
    made(p[8], made(p[9], 0, {}, nothing, deep, bf16).second - (25 << 20), {}, nothing, deep, bf16);
    std::set<int> sums;
    for (const StageSpec &s : p[8].stages)
        if (s.name == "add again") sums.insert(p[8].graph.calls()[size_t(s.call)].output);
    CHECK(sums.size() > 3);
    for (int sum : sums)
        for (int v : p[8].graph.calls()[size_t(p[8].graph.values()[size_t(sum)].producer)].inputs) CHECK(!sums.count(v));
    // Lines that do not go with blocks keep them away.
    auto fused = [](Gpt &m, Step &s) { s(d(m.token.table)).compute_at(next(m.token.table)); };
    const ModelArguments small{{"layers", "12"}, {"heads", "4"}, {"width", "128"}, {"context", "128"}, {"batch", "8"}, {"vocab", "9000"}};
    const auto [whole, most] = made(p[6], 0, {}, fused, small);
    CHECK(whole == 0);
    CHECK(made(p[7], most - (20 << 20), {}, fused, small).first == 0);
}

}  // namespace cryolite::test
