// Several workers, each with a GPU of its own, against doubles of the driver and of NCCL, which add on the host what is
// put into the workers' streams. With kernels of the CPU in place of PTX, losses and weights have to be the CPU's.

#include <thread>

#include "tests/cuda/use_cublaslt_recorder.h"
#include "tests/cuda/use_nccl_recorder.h"
#include "tests/parity/on_recorder.h"
#include "tests/parity/ranks_in_threads.h"
#include "tests/runtime/hanging_device.h"

namespace cryolite::test {

namespace {

struct Gpus {
    UseRecorder cuda;
    UseNcclRecorder nccl;
    UseCublasLtRecorder lt;
    explicit Gpus(int devices) { cuda.recorder.devices = devices; }
    ~Gpus() {
        for (const std::string &wrong : nccl.recorder.wrong) CHECK(wrong == "");
        for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
    }
};

json sizes(int workers, double clip, int accumulate = 1) {
    return {{"layers", 1},          {"heads", 2},  {"width", 64},  {"context", 8},
            {"batch", 2 * workers}, {"vocab", 19}, {"clip", clip}, {"accumulate", accumulate},
            {"workers", workers},   {"lr", 1e-2}};
}

int count(const NcclRecorder &nccl, const std::string &name) {
    return int(std::ranges::count(nccl.calls.at(0), name, &NcclRecorder::Call::name));
}

}  // namespace

TEST_CASE("nccl: losses and weights of several workers are those of as many on the CPU, bit by bit") {
    for (int workers : {2, 3}) {
        CAPTURE(workers);
        for (int accumulate : {1, 2}) {
            const Gpus gpus(workers);
            const Scratch folder;
            const json args = sizes(workers, 0.3, accumulate);
            const Trained expected = train_bundle(compile_gpt(args, "", folder / "cpu"), accumulate, 0.3);
            const Trained got =
                train_bundle(on_recorder(folder / "cpu", folder / "cuda", false).bundle, accumulate, 0.3, "cuda");
            CHECK(got.losses == expected.losses);
            CHECK(got.losses.front() != got.losses.back());
            CHECK(got.weights == expected.weights);
            CHECK(gpus.cuda.recorder.count("cuGraphLaunch") > 0);
            CHECK(count(gpus.nccl.recorder, "Reduce") > 0);
            CHECK(gpus.nccl.recorder.comms == 0);
        }
    }
}

TEST_CASE("nccl: weights of 16 bits and their masters, and updates that are withheld, are those of the CPU") {
    for (const char *precision : {"bf16", "fp16"}) {
        CAPTURE(precision);
        const Gpus gpus(2);
        const Scratch folder;
        json args = sizes(2, 0.3);
        args["width"] = 96;  // parameters of more than 16384 elements, of which each worker has a part
        const std::string flags = fmt::format("--precision {} --update separate", precision);
        const Trained expected = train_bundle(compile_gpt(args, flags, folder / "cpu"), 1, 0.3);
        const Trained got = train_bundle(on_recorder(folder / "cpu", folder / "cuda", false).bundle, 1, 0.3, "cuda");
        CHECK(got.losses == expected.losses);
        CHECK(got.losses.front() != got.losses.back());
        CHECK(got.weights == expected.weights);
        CHECK(count(gpus.nccl.recorder, "ReduceScatter") > 0);
    }
}

TEST_CASE("nccl: equal parts of gradients and parameters are one transfer, beside products by cuBLASLt") {
    const Gpus gpus(2);
    const Scratch folder;
    json args = sizes(2, 0.3);
    args["width"] = 96;  // parameters of more than 16384 elements
    const Trained expected = train_bundle(compile_gpt(args, "--update separate", folder / "cpu"), 1, 0.3);
    const Trained got = train_bundle(on_recorder(folder / "cpu", folder / "cuda").bundle, 1, 0.3, "cuda");
    for (size_t s = 0; s < got.losses.size(); s++)
        CHECK(std::abs(got.losses[s] - expected.losses[s]) < 1e-5 * expected.losses[s]);
    CHECK(count(gpus.nccl.recorder, "ReduceScatter") > 0);
    CHECK(count(gpus.nccl.recorder, "AllGather") > 0);
    CHECK(gpus.lt.recorder.calls.size() > 0);
}

TEST_CASE("nccl: ranks of several processes train as workers of one") {
    const Gpus gpus(2);
    const Scratch folder;
    const Trained expected = train_bundle(compile_gpt(sizes(2, 0.3), "", folder / "cpu"), 1, 0.3);
    const std::shared_ptr<Bundle> bundle = on_recorder(folder / "cpu", folder / "cuda", false).bundle;
    RanksInThreads ranks(2);
    std::array<Trained, 2> got;
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; r++)
        threads.emplace_back([&, r] {
            const auto device = make_device("cuda", 1, {}, {.ordinal = r});
            Trainer trainer(bundle, {device.get()}, ranks[r]);
            got[size_t(r)] = train_steps(trainer, 1, 0.3);
        });
    for (std::thread &t : threads) t.join();
    for (const Trained &t : got) {
        CHECK(t.losses == expected.losses);
        CHECK(t.weights == expected.weights);
    }
    CHECK(gpus.nccl.recorder.calls.at(0).size() == gpus.nccl.recorder.calls.at(1).size());
}

TEST_CASE("nccl: each GPU has the optimizer state of its parts alone, and files have all of it") {
    const Gpus gpus(2);
    const Scratch folder;
    const std::shared_ptr<Bundle> cpu = compile_gpt(sizes(2, 0.3), "", folder / "cpu");
    const OnRecorder made = on_recorder(folder / "cpu", folder / "cuda", false);
    const size_t before = gpus.cuda.recorder.allocated;
    const auto devices = devices_of(2, "cuda"), on_cpu = devices_of(2, "cpu");
    Trainer trainer(made.bundle, pointers_of(devices), known_processes()),
        expected(cpu, pointers_of(on_cpu), known_processes());
    std::map<std::string, int64_t> bytes = cpu->plan.memory(2);
    const int64_t state = bytes["state"], parameters = bytes["parameter"];
    int64_t all = parameters + bytes["norms"];
    for (auto &[role, n] : bytes) all += n;
    const auto used = int64_t(gpus.cuda.recorder.allocated - before);
    CHECK(state > 0);
    CHECK(used < all + state / 2);  // with all of it twice, it were state more
    Batch batch;
    for (Trainer *t : {&trainer, &expected}) {
        t->initialise(7);
        t->set("lr", 1e-2), t->set("clip", 0.3);
        const size_t n = size_t(t->batch() * t->rows_per_example());
        batch.tokens.resize(n), batch.targets.resize(n);
        for (size_t i = 0; i < n; i++) batch.tokens[i] = int32_t(i % 19), batch.targets[i] = int32_t((i + 1) % 19);
        for (int s = 0; s < 2; s++) t->step([&]() -> const Batch & { return batch; }, 1);
    }
    trainer.write_state(folder / "state"), expected.write_state(folder / "expected");
    CHECK(read_file(folder / "state") == read_file(folder / "expected"));
    trainer.forget_steps(), trainer.read_state(folder / "state"), trainer.write_state(folder / "again");
    CHECK(read_file(folder / "again") == read_file(folder / "expected"));
}

TEST_CASE("nccl: a transfer that fails is named, as it is put and as it is waited for") {
    Gpus gpus(2);
    const Scratch folder;
    compile_gpt(sizes(2, 0.3), "", folder / "cpu");
    const std::shared_ptr<Bundle> bundle = on_recorder(folder / "cpu", folder / "cuda", false).bundle;
    gpus.nccl.recorder.fails = "ncclGroupEnd", gpus.nccl.recorder.fails_at = 2;  // the first brings workers together
    CHECK_ERROR(train_bundle(bundle, 1, 0.3, "cuda"), "failed with code -1: NCCL: a transfer of worker");
    gpus.nccl.recorder.never_comes = 1, gpus.nccl.recorder.met = 6;
    CHECK_ERROR(train_bundle(bundle, 1, 0.3, "cuda"),
                "NCCL: a transfer of worker 0 failed: unhandled system error (said by the recorder)");
    CHECK(gpus.nccl.recorder.aborted > 0);
    gpus.nccl.recorder.never_comes = -1, gpus.nccl.recorder.met = 0;
    gpus.nccl.recorder.fails = "ncclCommInitRank", gpus.nccl.recorder.fails_at = 2;
    CHECK_ERROR(train_bundle(bundle, 1, 0.3, "cuda"),
                "NCCL: bringing 2 workers together, each on a GPU of its own failed");
    gpus.cuda.recorder.devices = 1;
    CHECK_ERROR(train_bundle(bundle, 1, 0.3, "cuda"),
                "worker 1 needs a GPU of its own, and CUDA's driver shows 1 here");
}

TEST_CASE("nccl: a worker that hangs is named") {
    static const auto *gpus = new Gpus(2);  // what is left behind may still use it, and all that follows
    (void)gpus;
    struct Hanging {
        std::unique_ptr<Device> first = make_device("cuda", 1);
        HangingDevice second{make_device("cuda", 1, {}, {.ordinal = 1}), 3};
        Trainer trainer;
        explicit Hanging(const std::shared_ptr<Bundle> &bundle)
            : trainer(bundle, {first.get(), &second}, processes(), 0.5) {}
    };
    const Scratch folder;
    compile_gpt(sizes(2, 0.3), "", folder / "cpu");
    static auto *const kept = new Hanging(on_recorder(folder / "cpu", folder / "cuda", false).bundle);
    Trainer &trainer = kept->trainer;
    trainer.initialise(1);
    Batch batch;
    batch.tokens.resize(size_t(trainer.batch() * trainer.rows_per_example())), batch.targets = batch.tokens;
    auto step = [&] { trainer.step([&]() -> const Batch & { return batch; }, 1); };
    step();
    CHECK_ERROR(step(), "worker 1 has given no sign of life for 0.5 s");
    CHECK(trainer.left_behind());
    CHECK_FALSE(trainer.settled());
}

}  // namespace cryolite::test
