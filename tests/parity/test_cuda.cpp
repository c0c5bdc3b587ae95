// Whole steps on the device cuda, compiled by Halide to PTX, against a driver that writes down its calls. It computes
// nothing: the order of calls, what is waited for and what is refused are tested here.

#include <set>

#include "runtime/exec/bundle_launches.h"
#include "tests/cuda/use_cublaslt_recorder.h"
#include "tests/cuda/use_nccl_recorder.h"
#include "tests/cuda/use_recorder.h"
#include "tests/parity/views_case.h"

namespace cryolite::test {

namespace {

const json sizes = {{"layers", 1}, {"heads", 2},  {"width", 16}, {"context", 8},
                    {"batch", 2},  {"vocab", 19}, {"lr", 1e-2},  {"clip", 1.0}};

/// Steps as `train` takes them; how many results they gave.
int advance(TrainingCase &c, int steps) {
    int results = 0;
    uint64_t at = 0;
    for (int s = 0; s < steps; s++)
        if (const StepResult *r = c.trainer.advance([&]() -> const Batch & { return c.batch(at++); }, 1)) {
            results++;
            CHECK(r->step == c.trainer.steps() - 1);
        }
    return results;
}

/// What the last graph of a GPU was captured of.
std::vector<std::string> captured(const CudaRecorder &cuda, int gpu) {
    const std::vector<std::string> &all = cuda.of_gpu.at(gpu);
    const auto end = std::find(all.rbegin(), all.rend(), "cuStreamEndCapture @0");
    const auto begin = std::find(end, all.rend(), "cuStreamBeginCapture @0");
    std::vector<std::string> calls(begin.base(), end.base());
    std::erase_if(calls, [](const std::string &c) { return c.starts_with("cuCtx") || c.starts_with("cuModule"); });
    return calls;
}

}  // namespace

TEST_CASE("cuda: a step is two graphs, launched again and again, and the host waits for none") {
    UseRecorder use;
    for (const char *update : {"separate", "backward", "forward"}) {
        CAPTURE(update);
        TrainingCase c(sizes, fmt::format("--update {}", update), "cuda");
        CHECK(advance(c, 3) == 2);  // the first runs, the second is captured; what waits for the first comes later
        use.recorder.calls.clear();
        for (int s = 0; s < 4; s++) CHECK(advance(c, 1) == 1);
        CHECK(use.recorder.waits() == 0);
        CHECK(use.recorder.count("cuGraphLaunch") == 8);
        for (const char *name : {"cuLaunchKernel", "cuStreamBeginCapture", "cuMemAlloc", "cuMemHostAlloc",
                                 "cuModuleLoadDataEx", "cuEventCreate"}) {
            CAPTURE(name);
            CHECK(use.recorder.count(name) == 0);
        }
        // Batch, targets, then the forward pass; numbers of the step, then the backward pass; the loss.
        std::string step = use.recorder.text();
        step.resize(step.size() / 4);
        CHECK(step.find("cuMemcpyHtoDAsync") < step.find("cuGraphLaunch"));
        CHECK(step.find("cuGraphLaunch") < step.rfind("cuMemcpyHtoDAsync"));
        CHECK(step.rfind("cuMemcpyHtoDAsync") < step.rfind("cuGraphLaunch"));
        CHECK(step.rfind("cuGraphLaunch") < step.rfind("cuMemcpyDtoHAsync"));
        REQUIRE(c.trainer.unread() == 1);
        CHECK(c.trainer.rest()->step == 7);
        CHECK(c.trainer.rest() == nullptr);
        CHECK(use.recorder.waits() == 0);
        c.step();  // and one that is waited for
        CHECK(c.trainer.steps() == 8);
    }
}

TEST_CASE("cuda: what explain lists is what a step launches, in blocks that registers leave room for") {
    UseRecorder use;
    const Scratch folder;
    json args = sizes;
    args["width"] = 256, args["vocab"] = 4096;  // a row of logits has a block of 512 threads
    const std::shared_ptr<Bundle> bundle = compile_gpt(args, "--update separate --device cuda", folder / "bundle");
    std::vector<std::string> listed, launched;
    auto words = [](const std::string &entry, const auto &b, const auto &t, int shared) {
        return fmt::format("{} {} {} {} of {} {} {} sharing {}", entry, b[0], b[1], b[2], t[0], t[1], t[2], shared);
    };
    int most = 0, by_fours = 0;
    for (const char *pass : {"forward", "step"})
        for (const PlanCall &c : bundle->plan.plans.at(pass))
            for (const KernelLaunch &l : launches_of(*bundle, c.kernel)) {
                listed.push_back(words(l.entry, l.blocks, l.threads, l.shared_bytes));
                most = std::max(most, l.threads_of_block()), by_fours += int(l.loads.count(16));
                CHECK(l.stores.size() > 0);
            }
    CHECK(most > 256);  // with 255 registers a thread such a block cannot be launched, and the recorder refuses it
    CHECK(by_fours > 5);
    const auto device = make_device("cuda", 1);
    Trainer trainer(bundle, *device);
    use.recorder.launches.clear();
    Batch batch;
    batch.tokens.resize(size_t(trainer.batch() * trainer.rows_per_example())), batch.targets = batch.tokens;
    trainer.step([&]() -> const Batch & { return batch; }, 1);
    for (const CudaRecorder::Launch &l : use.recorder.launches)
        launched.push_back(words(l.entry, l.blocks, l.threads, int(l.shared)));
    CHECK(launched == listed);
}

TEST_CASE("cuda: no block has more threads than a GPU takes, however long heads are") {
    UseRecorder use;
    const Scratch folder;
    for (const int width : {256, 320, 129}) {
        CAPTURE(width);
        const bool rotary = width % 2 == 0;
        const std::string flags = fmt::format("--device cuda --param layers=1 --param heads=1 --param width={} --param "
                                              "vocab=19 --param context=32 --param batch=1{}",
                                              width, rotary ? " --param kv-heads=1 --param hidden=16" : "");
        const std::shared_ptr<Bundle> bundle =
            compile_program(rotary ? "generators/llama" : "generators/gpt", flags, folder / "bundle");
        int kernels = 0;
        for (const char *pass : {"forward", "step"})
            for (const PlanCall &c : bundle->plan.plans.at(pass))
                for (const KernelLaunch &l : launches_of(*bundle, c.kernel)) {
                    CHECK(l.threads_of_block() <= 1024);
                    kernels++;
                }
        CHECK(kernels > 20);
    }
}

TEST_CASE("cuda: a launch has the addresses that the plan says, of views as parts of other arrays") {
    UseRecorder use;
    ViewsCase c(1, "", 1, "cuda", 157);
    CHECK(c.stages("reshape") == 0);
    CHECK(c.stages("slice") == 1);
    use.recorder.launches.clear();
    c.step();  // the first runs call by call, as the plan has them
    auto launch = use.recorder.launches.begin();
    const size_t arena = size_t(c.plan().arena);
    uint64_t begin = 0;
    int parts = 0, in_arena = 0;
    for (const char *entry : {"forward", "step"})
        for (const PlanCall &call : c.plan().plans.at(entry)) {
            CAPTURE(call.name);
            std::set<uint64_t> expected;  // in the arena
            for (const PlanCall::Bound &a : call.args) {
                const PlanBuffer &b = c.plan().buffers[size_t(a.buffer)];
                if (!b.in_arena()) continue;
                expected.insert(uint64_t(b.offset + a.offset * b.element_bytes()));
                parts += a.offset > 0;
            }
            for (size_t n = launches_of(*c.bundle, call.kernel).size(); n > 0; n--, ++launch) {
                REQUIRE(launch != use.recorder.launches.end());
                for (const uint64_t address : launch->arguments) {
                    const auto [first, bytes] = CudaRecorder::memory_of(address);
                    if (bytes < arena || bytes > arena + 64) continue;
                    if (!begin) begin = first;
                    CHECK(first == begin);
                    CHECK(expected.count(address - first) == 1);
                    in_arena++;
                }
            }
        }
    CHECK(launch == use.recorder.launches.end());
    CHECK(in_arena > 50);
    CHECK(parts >= 4);
}

TEST_CASE("cuda: gradients of several GPUs are added while kernels go on, the host waits for no step") {
    UseRecorder cuda;
    UseNcclRecorder nccl;
    cuda.recorder.devices = 2;
    json args = sizes;
    args["layers"] = 2, args["width"] = 96, args["workers"] = 2, args["clip"] = 0;
    for (const char *update : {"separate", "backward"}) {
        CAPTURE(update);
        TrainingCase c(args, fmt::format("--update {}", update), "cuda");
        advance(c, 3);
        for (int gpu : {0, 1}) {
            // Stream 0 is that of kernels, 2 that of transfers. Each of these begins after kernels, and is waited for.
            const std::vector<std::string> calls = captured(cuda.recorder, gpu);
            int transfers = 0, meanwhile = 0;
            bool waited = true;
            for (size_t i = 0; i < calls.size(); i++) {
                if (calls[i].starts_with("nccl")) {
                    CHECK(calls[i].ends_with(" @2"));
                    CHECK(calls[i - 1] == "cuStreamWaitEvent @2");
                    CHECK(calls[i - 2] == "cuEventRecord @0");
                    CHECK(calls[i + 1] == "cuEventRecord @2");
                    transfers++, waited = false;
                }
                if (calls[i] == "cuStreamWaitEvent @0") waited = true;
                meanwhile += !waited && calls[i].starts_with("cuLaunchKernel");
            }
            CHECK(transfers > 10);
            CHECK(meanwhile > 15);  // most of the backward pass
            CHECK(waited);
        }
        cuda.recorder.calls.clear(), nccl.recorder.calls.clear();
        advance(c, 4);
        CHECK(cuda.recorder.waits() == 0);
        CHECK(cuda.recorder.count("cuGraphLaunch") == 16);  // forward, step; of each worker
        CHECK(nccl.recorder.calls.empty());                 // they are in the graphs
        CHECK(cuda.recorder.count("cuEventCreate") == 0);
        c.trainer.rest();
    }
    for (const std::string &wrong : nccl.recorder.wrong) CHECK(wrong == "");
}

TEST_CASE("cuda: products of --dialect cublaslt are in the graphs, each with a workspace in the arena") {
    UseRecorder use;
    UseCublasLtRecorder lt;
    for (const std::string precision : {"fp32", "tf32", "bf16", "fp16"}) {
        CAPTURE(precision);
        lt.recorder.calls.clear();
        TrainingCase c(sizes, fmt::format("--update separate --dialect cublaslt --precision {}", precision), "cuda");
        const Plan &plan = c.trainer.plan();
        std::set<std::string> forms;
        for (auto &[name, calls] : plan.plans)
            for (const PlanCall &call : calls) {
                const PlanKernel &k = plan.kernels[size_t(call.kernel)];
                CHECK((k.chosen >= 0) == (call.workspace >= 0));
                if (k.chosen < 0) continue;
                forms.insert(k.form);
                CHECK(plan.buffers[size_t(call.workspace)].offset + plan.buffers[size_t(call.workspace)].bytes <=
                      plan.arena);
            }
        CHECK(forms == std::set<std::string>{"forward", "d_input", "d_parameter"});
        CHECK(lt.recorder.calls.front().compute == (precision == "tf32" ? 77 : 68));
        CHECK(advance(c, 3) == 2);
        use.recorder.calls.clear();
        CHECK(advance(c, 4) == 4);
        CHECK(use.recorder.waits() == 0);
        CHECK(use.recorder.count("cuGraphLaunch") == 8);
        CHECK(use.recorder.count("cublasLtMatmul") == 0);  // not apart from them
        for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
        c.trainer.rest();
    }
}

TEST_CASE("cuda: --profile times each kernel by events") {
    UseRecorder use;
    UseCublasLtRecorder lt;
    TrainingCase c(sizes, "--update separate --dialect cublaslt", "cuda");
    c.step();
    std::vector<double> seconds;
    c.trainer.profile(&seconds);
    use.recorder.calls.clear(), lt.recorder.calls.clear();
    c.step();
    double all = 0;
    for (double s : seconds) all += s;
    // Of this GPU only products take time.
    const double products = double(lt.recorder.calls.size());
    CHECK(products > 5);
    CHECK(std::abs(all - products * CublasLtRecorder::seconds(2)) < 1e-6);
    CHECK(use.recorder.count("cuEventElapsedTime") == int(seconds.size()));
    CHECK(use.recorder.count("cuGraphLaunch") == 0);
    c.trainer.profile(nullptr);
    c.step();
    CHECK(use.recorder.count("cuGraphLaunch") == 2);
}

TEST_CASE("cuda: a GPU that is behind is waited for by the step before the last") {
    UseRecorder use;
    TrainingCase c(sizes, "--update separate", "cuda");
    advance(c, 3);
    use.recorder.slow = true, use.recorder.calls.clear();
    advance(c, 4);
    CHECK(use.recorder.count("cuStreamSynchronize") == 0);
    CHECK(use.recorder.count("cuEventSynchronize") == 3);  // the step before had been done at once
    c.trainer.rest();
}

TEST_CASE("cuda: weights go there and back") {
    UseRecorder use;
    TrainingCase c(sizes, "", "cuda");
    for (const std::string &name : c.parameters()) {
        std::vector<float> values = c.values(Role::parameter, name);
        for (size_t i = 0; i < values.size(); i++) {
            CHECK(values[i] == formula_weight(name, i));
            values[i] += 1;
        }
        c.set_values(name, values);
        CHECK(c.values(Role::parameter, name) == values);
    }
}

TEST_CASE("cuda: a bundle for another GPU, and for another device") {
    UseRecorder use;
    Scratch folder;
    auto compiled = [&](const char *name, const std::string &on) {  // a model of few kernels
        return compile_program("tests/scaled", "--param batch=8 --optimizer adamw " + on, folder / name);
    };
    const std::shared_ptr<Bundle> newer = compiled("newer", "--device cuda --target sm_90");
    CHECK(newer->plan.capability == 86);  // what its PTX asks for
    auto refusal = [](std::shared_ptr<Bundle> bundle, const char *name) -> std::string {
        const auto device = make_device(name, 1);
        try {
            Trainer trainer(std::move(bundle), *device);
        } catch (const Error &e) {
            return e.what();
        }
        return "";
    };
    CHECK(refusal(newer, "cuda") == "");
    CHECK(refusal(newer, "cpu") ==
          "the kernels were compiled for the device cuda, not for cpu: compile them with --device cpu");
    use.recorder.capability = 80;
    CHECK(refusal(newer, "cuda").find("8.6 and newer, and the Recorder has 8.0: compile them with --target sm_80") !=
          std::string::npos);
    CHECK(refusal(compiled("older", "--device cuda --target sm_80"), "cuda") == "");
    CHECK(refusal(compiled("cpu", ""), "cuda") ==
          "the kernels were compiled for the device cpu, not for cuda: compile them with --device cuda");
}

TEST_CASE("cuda: where there is no memory, the plan says who holds it") {
    UseRecorder use;
    Scratch folder;
    const std::shared_ptr<Bundle> bundle = compile_gpt(sizes, "--device cuda", folder / "bundle");
    const size_t before = use.recorder.allocated;
    use.recorder.memory = before + 30000;
    std::string said;
    {
        const auto device = make_device("cuda", 1);
        try {
            Trainer trainer(bundle, *device);
        } catch (const Error &e) {
            said = e.what();
        }
    }
    CAPTURE(said);
    CHECK(said.find("the Recorder has no memory for ") != std::string::npos);
    CHECK(said.find(". The step holds there:\n  weights     ") != std::string::npos);
    CHECK(said.find("\n  activations ") != std::string::npos);
    CHECK(said.find("\nUse a smaller batch, context or model, or --recompute BYTES") != std::string::npos);
    CHECK(use.recorder.allocated == before);
}

}  // namespace cryolite::test
