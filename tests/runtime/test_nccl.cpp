// What workers with GPUs of their own send each other: by the plan alone, and through an NCCL that computes on the
// host.

#include "runtime/collective/local/local_collective.h"
#include "runtime/collective/nccl/nccl_api.h"
#include "runtime/collective/nccl/nccl_collective.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/exec/exchanges.h"
#include "tests/cuda/use_nccl_recorder.h"
#include "tests/cuda/use_recorder.h"
#include "tests/runtime/scratch.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

#include <array>
#include <chrono>
#include <numeric>
#include <thread>

namespace cryolite::test {

namespace {

/// A step of two workers that updates an array in parts and another, small one whole.
struct SmallStep {
    static constexpr int large = 40000, small = 50, each = 20032;  // of 64 elements, at least half of all
    Plan plan;
    std::vector<PlanCall> calls;
    int w, v, dw, dv, state, norms, x;

    SmallStep() {
        plan.workers = 2;
        w = add("w", Role::parameter, large), v = add("v", Role::parameter, small);
        dw = add("w", Role::gradient, large), dv = add("v", Role::gradient, small);
        state = add("w.m", Role::state, large), norms = add("norms", Role::norms, 4),
        x = add("x", Role::activation, 100);
        plan.arena = 400, plan.buffers[size_t(x)].offset = 0;
    }
    int add(const std::string &name, Role role, int n) {
        plan.buffers.push_back({.name = name, .role = role, .type = "float32", .shape = {n}, .bytes = 4 * n});
        return int(plan.buffers.size()) - 1;
    }
    struct Argument {
        int buffer, begin, count;
        bool written = false;
    };
    void call(const std::string &name, const std::vector<Argument> &arguments, int worker = -1) {
        PlanCall c{.kernel = int(plan.kernels.size()), .worker = worker, .name = name};
        PlanKernel k{.symbol = name};
        for (const Argument &a : arguments)
            k.args.push_back({"float32", {a.count}, a.written}), c.args.push_back({a.buffer, a.begin});
        plan.kernels.push_back(k), calls.push_back(c);
    }
    void sum(int buffer, int begin, int count, int worker) {
        calls.push_back({.kernel = -1, .worker = worker, .sum = count, .name = "sum", .args = {{buffer, begin}}});
    }
    void sum_w() { sum(dw, 0, each, 0), sum(dw, each, large - each, 1); }
    void update_w() {
        call("next(w) 0", {{dw, 0, each}, {state, 0, each, true}, {w, 0, each, true}}, 0);
        call("next(w) 1", {{dw, each, large - each}, {state, each, large - each, true}, {w, each, large - each, true}},
             1);
    }
    std::vector<std::string> list() const {
        std::vector<std::string> words;
        for (const Exchange &e : exchanges(plan, calls)) {
            std::string text = fmt::format("after {} before {}:", e.after, e.before);
            for (const Exchange::Part &p : e.parts)
                text += fmt::format(" {} {} {} {}+{}", name_of(p.kind), p.owner, plan.buffers[size_t(p.buffer)].name,
                                    p.begin, p.bytes);
            words.push_back(text);
        }
        return words;
    }
};

}  // namespace

TEST_CASE("nccl: a gradient is added as soon as it exists, and waited for where it is read") {
    SmallStep s;
    s.call("d(w)", {{s.dw, 0, s.large, true}}), s.sum_w();
    s.call("d(x)", {{s.x, 0, 100, true}});
    s.call("d(v)", {{s.dv, 0, s.small, true}}), s.sum(s.dv, 0, s.small, 1);
    s.update_w();
    s.call("next(v)", {{s.dv, 0, s.small}, {s.v, 0, s.small, true}}, 1);
    CHECK(s.list() == std::vector<std::string>{
                          "after 3 before 6: reduce-scatter -1 w 0+160256",  // 128 bytes beyond the end
                          "after 6 before 8: reduce 1 v 0+200",
                          "after 8 before 9: all-gather -1 w 0+160256",
                          "after 9 before 9: broadcast 1 v 0+200",
                      });
}

TEST_CASE("nccl: small gradients are added together, unless one is needed before the next exists") {
    SmallStep s;
    const int du = s.add("u", Role::gradient, 60);
    auto gradients = [&] {
        s.call("d(v)", {{s.dv, 0, s.small, true}}), s.sum(s.dv, 0, s.small, 1);
        s.call("d(x)", {{s.x, 0, 100, true}});
        s.call("d(u)", {{du, 0, 60, true}}), s.sum(du, 0, 60, 0);
    };
    gradients();
    s.call("d(w)", {{s.dw, 0, s.large, true}}), s.sum_w();
    s.call("norms", {{s.dv, 0, s.small}, {du, 0, 60}, {s.dw, 0, s.large}, {s.norms, 0, 1, true}});
    CHECK(s.list() == std::vector<std::string>{"after 8 before 8: reduce-scatter -1 w 0+160256 reduce 1 v 0+200 "
                                               "reduce 0 u 0+240"});
    s.calls.clear(), gradients();
    s.call("next(v)", {{s.dv, 0, s.small}, {s.v, 0, s.small, true}}, 1);
    s.call("d(w)", {{s.dw, 0, s.large, true}}), s.sum_w();
    CHECK(s.list() == std::vector<std::string>{"after 5 before 5: reduce 1 v 0+200 reduce 0 u 0+240",
                                               "after 9 before 9: reduce-scatter -1 w 0+160256",
                                               "after 9 before 9: broadcast 1 v 0+200"});
}

TEST_CASE("nccl: what owners compute goes to all before it is read, small things together") {
    SmallStep s;
    for (int k = 0; k < 4; k++) s.call("norm", {{s.dw, 0, s.each}, {s.norms, k, 1, true}}, k % 2);
    s.call("scale", {{s.norms, 0, 4}, {s.x, 0, 1, true}});
    s.update_w();
    s.call("forward", {{s.w, 0, s.large}, {s.x, 0, 100, true}});
    CHECK(s.list() == std::vector<std::string>{
                          "after 4 before 4: all-gather -1 norms 0+8 all-gather -1 norms 8+8",
                          "after 7 before 7: all-gather -1 w 0+160256",
                      });
    // A call that overwrites what is sent waits, too.
    SmallStep t;
    t.sum_w();
    t.call("d(w)", {{t.dw, 0, t.large, true}});
    CHECK(t.list() == std::vector<std::string>{"after 2 before 2: reduce-scatter -1 w 0+160256"});
    // A last part that is longer than the others is none of equal parts.
    SmallStep u;
    u.sum(u.dw, 0, 19968, 0), u.sum(u.dw, 19968, 20032, 1);
    CHECK(u.list() == std::vector<std::string>{"after 2 before 2: reduce 0 w 0+79872 reduce 1 w 79872+80128"});
}

TEST_CASE("nccl: a plan of workers that share a memory is refused") {
    SmallStep s;
    const int share = s.add("w", Role::share, s.large);
    s.call("next(w)", {{share, 0, s.large}, {s.w, 0, s.large, true}}, 0);
    CHECK_ERROR(s.list(), "'next(w)' reads the gradient of 'w' in the memory of other workers, but each GPU");
}

namespace {

/// Workers with an array of so many floats each.
struct Gpus {
    UseRecorder cuda;
    UseNcclRecorder nccl;
    int workers;
    size_t n;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<DeviceMemory> memory;
    std::vector<std::unique_ptr<SideStream>> sides;
    std::vector<std::unique_ptr<Collective>> ends;

    Gpus(int workers, size_t n) : workers(workers), n(n) {
        cuda.recorder.devices = workers;
        for (int w = 0; w < workers; w++) {
            devices.push_back(make_cuda_device({.ordinal = w}));
            memory.push_back(devices.back()->allocate(n * sizeof(float), "values"));
            sides.push_back(devices.back()->side_stream());
        }
        ends = nccl_collectives(local_collectives(workers), known_processes(),
                                [this](int w) { devices[size_t(w)]->gpu()->stream(); });
    }
    ~Gpus() {
        ends.clear(), sides.clear();
        for (int w = 0; w < workers; w++) devices[size_t(w)]->release(memory[size_t(w)]);
        for (const std::string &wrong : nccl.recorder.wrong) CHECK(wrong == "");
        CHECK(nccl.recorder.comms == 0);
    }
    /// A thread of the worker calls it.
    void wait_for_abort() {
        auto aborted = [this] {
            const auto hold = CudaRecorder::hold();
            return nccl.recorder.aborted;
        };
        for (int turns = 0; aborted() == 0 && turns < 5000; turns++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        REQUIRE(aborted() == 1);
    }
    static float value(int worker, size_t i) { return 1000 * float(worker + 1) + float(i); }
    void fill() {
        for (int w = 0; w < workers; w++) {
            std::vector<float> values(n);
            for (size_t i = 0; i < n; i++) values[i] = value(w, i);
            devices[size_t(w)]->upload(memory[size_t(w)], 0, values.data(), n * sizeof(float));
        }
    }
    DeviceCollective &end(int w) { return dynamic_cast<DeviceCollective &>(*ends[size_t(w)]); }
    void put(int w, TransferKind kind, int owner) {
        const Transfer t{kind, owner, memory[size_t(w)].address, n * sizeof(float)};
        SideStream &side = *sides[size_t(w)];
        side.after_kernels();
        end(w).put({&t, 1}, side.stream());
        side.mark(0), side.kernels_wait(0);
    }
    std::vector<float> get(int w) {
        std::vector<float> values(n);
        devices[size_t(w)]->download(values.data(), memory[size_t(w)], 0, n * sizeof(float));
        devices[size_t(w)]->finish();
        return values;
    }
};

}  // namespace

TEST_CASE("nccl: gradients are added in the workers' parts, what owners have goes to all") {
    Gpus g(3, 12);
    const auto sum = [&](size_t i) { return 6000 + 3 * float(i); };
    for (const TransferKind kind :
         {TransferKind::reduce_scatter, TransferKind::reduce, TransferKind::all_gather, TransferKind::broadcast}) {
        CAPTURE(name_of(kind));
        g.fill();
        for (int w = 0; w < 3; w++) g.put(w, kind, 1);
        for (int w = 0; w < 3; w++) {
            const std::vector<float> got = g.get(w);
            for (size_t i = 0; i < g.n; i++) {
                const int part = int(i / 4);
                CAPTURE(w);
                CAPTURE(i);
                if (kind == TransferKind::reduce_scatter && part == w) CHECK(got[i] == sum(i));
                if (kind == TransferKind::reduce && w == 1) CHECK(got[i] == sum(i));
                if (kind == TransferKind::all_gather) CHECK(got[i] == g.value(part, i));
                if (kind == TransferKind::broadcast) CHECK(got[i] == g.value(1, i));
            }
        }
    }
    CHECK(g.nccl.recorder.done == 4);
}

TEST_CASE("nccl: transfers wait for kernels before them and for all workers; kernels after them wait") {
    Gpus g(2, 4);
    g.fill();
    g.put(0, TransferKind::reduce, 0);
    CHECK(g.nccl.recorder.done == 0);
    const uint64_t mark = g.devices[0]->mark();
    bool asked = false;
    g.devices[0]->use_watch([&] {
        if (!asked) g.put(1, TransferKind::reduce, 0);  // the other worker comes while the host waits
        asked = true;
    });
    g.devices[0]->await(mark);
    CHECK(asked);
    CHECK(g.get(0) == std::vector<float>{3000, 3002, 3004, 3006});
    g.devices[0]->use_watch({});
}

TEST_CASE("nccl: a worker that fails is told to the others, whose GPUs go on without it") {
    Gpus g(2, 4);
    g.put(0, TransferKind::reduce, 0);
    g.devices[0]->use_watch([&] { g.end(0).check(); });
    g.end(1).give_up();
    CHECK_ERROR(g.devices[0]->finish(), "worker 0 waited for another worker, which has failed");
    g.wait_for_abort();
    g.devices[0]->finish();
    CHECK_ERROR(g.put(0, TransferKind::reduce, 0), "worker 0 has left NCCL's group of GPUs, as a worker failed before");
    g.devices[0]->use_watch({});
}

TEST_CASE("nccl: a worker whose graphs hold transfers gives them up without waiting for its graphs to end") {
    Gpus g(2, 4);
    struct Call {
        Gpus *gpus;
        int worker;
        void *argv[1];
    };
    std::array<Call, 2> calls = {{{&g, 0, {}}, {&g, 1, {}}}};
    std::array<std::unique_ptr<Replay>, 2> replays;
    auto run = [&](int w) {
        calls[size_t(w)].argv[0] = &calls[size_t(w)];
        const KernelCall call{[](void **argv) {
                                  const Call &c = *static_cast<Call *>(argv[0]);
                                  return c.gpus->put(c.worker, TransferKind::reduce, 0), 0;
                              },
                              calls[size_t(w)].argv};
        if (!replays[size_t(w)]) replays[size_t(w)] = g.devices[size_t(w)]->make_replay();
        CHECK(g.devices[size_t(w)]->run({&call, 1}, replays[size_t(w)].get()).call == -1);
    };
    for (int step = 0; step < 3; step++) run(0), run(1);
    CHECK(g.nccl.recorder.done == 3);
    run(0);  // the other one does not come
    g.devices[0]->use_watch([&] { g.end(0).check(); });
    g.end(1).give_up();
    CHECK_ERROR(g.devices[0]->finish(), "worker 0 waited for another worker, which has failed");
    g.wait_for_abort();
    CHECK(g.nccl.recorder.comms == 2);  // the library waits for the graphs
    g.devices[0]->use_watch({});
    replays = {};
}

TEST_CASE("nccl: where the second worker cannot join, the first one leaves") {
    UseRecorder cuda;
    cuda.recorder.devices = 2;
    UseNcclRecorder nccl;
    nccl.recorder.fails = "ncclCommInitRank", nccl.recorder.fails_at = 2;
    CHECK_ERROR(nccl_collectives(local_collectives(2), known_processes(), [](int) {}),
                "bringing 2 workers together, each on a GPU of its own");
    CHECK(nccl.recorder.comms == 0);
}

TEST_CASE("nccl: no library, one that is none, an old one: each with what helps") {
    {
        const UseNcclRecorder use("");
        const std::string said = error_of(check_nccl);
        if (said.empty())
            MESSAGE("this machine has NCCL");
        else
            CHECK(said.find("there is no libnccl.so.2 here, by which GPUs add gradients: install NCCL") !=
                  std::string::npos);
    }
    {
        const UseNcclRecorder use("/nowhere/libnccl.so");
        CHECK_ERROR(check_nccl(), "CRYOLITE_NCCL names /nowhere/libnccl.so, which cannot be loaded");
    }
    {
        const UseNcclRecorder use("libm.so.6");
        CHECK_ERROR(check_nccl(), "libm.so.6 has no ncclGetVersion: it is no NCCL; or use one worker");
    }
    const UseNcclRecorder use;
    use.recorder.version = 21210;
    CHECK_ERROR(check_nccl(), "is NCCL 2.12, and 2.13 is needed: install a newer one, or use one worker");
    use.recorder.version = 2708;
    CHECK_ERROR(check_nccl(), "is NCCL 2.7, and");
    use.recorder.version = 21304;
    CHECK(error_of(check_nccl) == "");
}

TEST_CASE("nccl: too few GPUs for the workers; a process that sees one alone has that") {
    const UseRecorder use;
    use.recorder.devices = 2;
    CHECK(error_of([] { make_cuda_device({.ordinal = 1}); }) == "");
    CHECK_ERROR(make_cuda_device({.ordinal = 2}),
                "worker 2 needs a GPU of its own, and CUDA's driver shows 2 here: use fewer workers");
    use.recorder.devices = 1;
    CHECK(error_of([] { make_cuda_device({.ordinal = 3, .seen_alone = true}); }) == "");
}

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
TEST_CASE("nccl: its numbers are those of the library's header") {
    static_assert(sizeof(NcclApi::Id) == sizeof(ncclUniqueId));
    const std::array<std::pair<int, int>, 5> same = {{{NcclApi::success, ncclSuccess},
                                                      {NcclApi::in_progress, ncclInProgress},
                                                      {NcclApi::bytes, ncclUint8},
                                                      {NcclApi::float32, ncclFloat32},
                                                      {NcclApi::sum, ncclSum}}};
    for (const auto &[ours, theirs] : same) CHECK(ours == theirs);
}
#endif

}  // namespace cryolite::test
