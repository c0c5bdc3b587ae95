// Small models on OpenCL: every placement, odd shapes, and that a step waits for the device once.

#include <dlfcn.h>

#include "tests/parity/opencl.h"
#include "tests/parity/views_case.h"
#include "tests/support/slow.h"

namespace {

int waits = 0;  ///< of the host for the device, since the program began

template <typename Function> Function *real(const char *name) {
    static void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    return reinterpret_cast<Function *>(dlsym(library, name));
}

}  // namespace

// Halide's runtime and ours look for OpenCL's functions in the program first: here they are counted.
extern "C" {
int clFinish(void *queue) { return waits++, real<int(void *)>("clFinish")(queue); }
int clWaitForEvents(uint32_t n, void *const *events) {
    return waits++, real<int(uint32_t, void *const *)>("clWaitForEvents")(n, events);
}
int clEnqueueReadBuffer(void *q, void *m, uint32_t blocking, size_t at, size_t n, void *to, uint32_t k, void *const *w,
                        void **e) {
    waits += blocking != 0;
    return real<int(void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *const *, void **)>(
        "clEnqueueReadBuffer")(q, m, blocking, at, n, to, k, w, e);
}
int clEnqueueWriteBuffer(void *q, void *m, uint32_t blocking, size_t at, size_t n, const void *from, uint32_t k,
                         void *const *w, void **e) {
    waits += blocking != 0;
    return real<int(void *, void *, uint32_t, size_t, size_t, const void *, uint32_t, void *const *, void **)>(
        "clEnqueueWriteBuffer")(q, m, blocking, at, n, from, k, w, e);
}
}

namespace cryolite::test {

namespace {
const json even = {{"layers", 2}, {"heads", 2},  {"width", 16}, {"context", 16},
                   {"batch", 2},  {"vocab", 32}, {"lr", 1e-2}};
const json odd = {{"layers", 1}, {"heads", 3},  {"width", 21}, {"context", 19},
                  {"batch", 3},  {"vocab", 37}, {"lr", 1e-2}};
}  // namespace

TEST_CASE("opencl: updates inside the backward pass on odd shapes") {
    if (opencl_is_here()) check_losses(odd, "--update backward", 10);
}

TEST_CASE("opencl: every update mode on even and odd shapes, 50 steps" * slow()) {
    if (!opencl_is_here()) return;
    for (const json &shape : {even, odd})
        for (const char *update : {"separate", "backward", "forward"})
            check_losses(shape, fmt::format("--update {}", update), 50);
}

TEST_CASE("opencl: 16 bits, which are words there") {
    if (!opencl_is_here()) return;
    json args = odd;
    args["clip"] = 0.7;
    check_losses(args, "--precision bf16 --update backward", 10, 2e-3);
    check_losses(args, "--precision fp16 --update separate", 10, 5e-4);
}

TEST_CASE("opencl: 16 bits in all places of an update, 50 steps" * slow()) {
    if (!opencl_is_here()) return;
    for (json args : {even, odd})
        for (const char *precision : {"bf16", "fp16"})
            for (const char *update : {"separate", "backward", "forward"}) {
                check_losses(args, fmt::format("--precision {} --update {}", precision, update), 50, 1e-2);
                args["clip"] = 0.7;
            }
}

TEST_CASE("opencl: an update of 16 bits whose gradients are not finite is withheld there") {
    if (!opencl_is_here()) return;
    for (const char *flags : {"--precision bf16 --update backward", "--precision fp16 --update separate"}) {
        CAPTURE(flags);
        TrainingCase c(even, flags, "opencl"), twin(even, flags, "opencl");
        for (int k = 0; k < 2; k++) c.step(), twin.step();
        const std::vector<float> good = c.values(Role::parameter, "ln_f.weight");
        std::vector<float> bad = good;
        bad[3] = INFINITY;
        c.set_values("ln_f.weight", bad);
        const std::vector<float> before = c.values(Role::parameter, "h.0.mlp.c_fc.weight");
        c.step(), twin.skip();
        CHECK(c.values(Role::parameter, "h.0.mlp.c_fc.weight") == before);
        CHECK(c.trainer.withheld() == 1);
        c.set_values("ln_f.weight", good);
        CHECK(std::isfinite(c.step()));
        CHECK(c.values(Role::parameter, "h.0.mlp.c_fc.weight") != before);
    }
}

TEST_CASE("opencl: clipped, with norms of gradients that are not stored; and accumulated" * slow()) {
    if (!opencl_is_here()) return;
    for (json shape : {even, odd}) {
        shape["clip"] = 0.7;
        check_losses(shape, "--update separate", 50);
        check_losses(shape, "--update backward", 50);
        shape["accumulate"] = 3;
        check_losses(shape, "--update forward", 20);
    }
}

TEST_CASE("opencl: a rule that takes the norms of the weight and of the gradient" * slow()) {
    if (!opencl_is_here()) return;
    for (const json &shape : {even, odd}) check_losses(shape, "--optimizer lars", 20);
}

namespace {

/// Losses of batches of five images from a formula are those of the CPU.
void check_images(const std::string &program, const std::string &flags, int steps) {
    const Scratch folder;
    std::map<std::string, std::vector<double>> losses;
    for (const char *on : {"cpu", "opencl"}) {
        auto bundle = compile_program(program, fmt::format("--device {} --param batch=5 {}", on, flags), folder / on);
        auto device = make_device(on, 2);
        Trainer t(bundle, *device);
        t.initialise(7);
        t.set("lr", 2e-3);
        Batch batch;
        uint64_t at = 0;
        const size_t pixels = size_t(t.plan().buffers[size_t(t.plan().find(Role::input, "features"))].elements());
        auto next = [&]() -> const Batch & {
            at = 0;  // the same images, so that only the weights change the loss
            batch.features.resize(pixels), batch.targets.resize(5);
            for (float &x : batch.features) x = float(formula_bits("pixels", at++) >> 40) * 0x1p-24f;
            for (int32_t &y : batch.targets) y = int32_t(formula_bits("digits", at++) % 10);
            return batch;
        };
        for (int s = 0; s < steps; s++) losses[on].push_back(t.step(next, 1));
    }
    for (size_t s = 0; s < size_t(steps); s++) {
        CAPTURE(s);
        CHECK(std::abs(losses["cpu"][s] - losses["opencl"][s]) <= 1e-4);
    }
    CHECK(losses["cpu"].front() != losses["cpu"].back());
}

}  // namespace

TEST_CASE("opencl: the digits model, convolutions and pools" * slow()) {
    if (opencl_is_here()) check_images("generators/digits", "", 20);
}

TEST_CASE("opencl: sums over the images of a batch, by channel and by weight of a convolution") {
    if (!opencl_is_here()) return;
    check_images("generators/vision", "--param size=16 --param width=8 --param layers=1", 3);
    check_images("generators/vision", "--param size=8 --param width=3 --param layers=1", 3);
}

TEST_CASE("opencl: reshapes and slices that are views of other arrays") {
    if (!opencl_is_here()) return;
    ViewsCase cpu(1, "", 1, "cpu", 157), opencl(1, "", 1, "opencl", 157);
    CHECK(opencl.stages("reshape") == 0);
    CHECK(opencl.stages("slice") == 1);  // along an inner dimension
    const std::vector<double> expected = cpu.losses(10), got = opencl.losses(10);
    for (size_t s = 0; s < expected.size(); s++) {
        CAPTURE(s);
        CHECK(std::abs(got[s] - expected[s]) <= 1e-4 * expected[s]);
    }
    CHECK(expected[9] != expected[0]);
}

TEST_CASE("opencl: the weights are the CPU's after a step, and again after they are written and read") {
    if (!opencl_is_here()) return;
    TrainingCase cpu(even, "--update separate"), opencl(even, "--update separate", "opencl");
    cpu.step(), opencl.step();
    for (const std::string &name : cpu.parameters()) {
        CAPTURE(name);
        if (name.ends_with("c_attn.bias")) continue;  // keys' gradients are rounding, which Adam makes large
        const std::vector<float> expected = cpu.values(Role::parameter, name),
                                 got = opencl.values(Role::parameter, name);
        for (size_t i = 0; i < expected.size(); i++) {
            CAPTURE(i);
            CHECK(std::abs(expected[i] - got[i]) <= 1e-2 * 2e-2);  // of a step of the rate
        }
        opencl.set_values(name, got);
        CHECK(opencl.values(Role::parameter, name) == got);
    }
}

TEST_CASE("opencl: a step waits for the device once, whatever it is made of" * slow()) {
    if (!opencl_is_here()) return;
    for (int accumulate : {1, 3})
        for (const char *update : {"separate", "backward", "forward"}) {
            json args = even;
            args["accumulate"] = accumulate, args["clip"] = 1.0;
            TrainingCase c(args, fmt::format("--update {}", update), "opencl");
            c.step();  // memory is touched and kernels are compiled for the first time
            for (int s = 0; s < 3; s++) {
                const int before = waits;
                c.step();
                CAPTURE(update);
                CAPTURE(accumulate);
                CHECK(waits == before + 1);
            }
        }
}

TEST_CASE("opencl: kernels for another device are refused") {
    Scratch folder;
    std::shared_ptr<Bundle> bundle = compile_gpt(even, "--device opencl", folder / "bundle");
    auto cpu = make_device("cpu", 1);
    std::string said;
    try {
        Trainer trainer(bundle, *cpu);
    } catch (const Error &e) {
        said = e.what();
    }
    CHECK(said == "the kernels were compiled for the device opencl, not for cpu: compile them with --device cpu");
}

TEST_CASE("opencl: norms and sums of several blocks, some of them ragged") {
    if (!opencl_is_here()) return;
    json shape = {{"layers", 1}, {"heads", 2},  {"width", 50}, {"context", 11},
                  {"batch", 3},  {"vocab", 37}, {"lr", 1e-2},  {"clip", 0.7}};
    check_losses(shape, "--update separate", 8);
    shape["width"] = 64, shape["context"] = 16;
    check_losses(shape, "--update separate", 8);
}

TEST_CASE("opencl: attention over several blocks of queries and of keys, some of them ragged") {
    if (!opencl_is_here()) return;
    json shape = {{"layers", 1}, {"heads", 3},  {"width", 21}, {"context", 48},
                  {"batch", 2},  {"vocab", 37}, {"lr", 1e-2}};
    check_losses(shape, "--update separate", 8);
    shape["width"] = 48, shape["context"] = 77;
    check_losses(shape, "--update separate", 8);
}

TEST_CASE("opencl: products in tiles, whole and ragged, with updates in place and in all formats") {
    if (!opencl_is_here()) return;
    json shape = {{"layers", 1}, {"heads", 2},  {"width", 64}, {"context", 32},
                  {"batch", 2},  {"vocab", 40}, {"lr", 1e-2}};
    check_losses(shape, "--update backward", 8);
    check_losses(shape, "--update backward --precision bf16", 8, 2e-3);
    check_losses(shape, "--update separate --precision fp16", 8, 5e-4);
    shape["width"] = 74, shape["context"] = 8, shape["vocab"] = 157;
    check_losses(shape, "--update backward", 8);
    check_losses(shape, "--update separate", 8);
    shape["batch"] = 16, shape["context"] = 32;  // sums of 512 terms, which several blocks share
    check_losses(shape, "--update backward", 3);
    check_losses(shape, "--update separate", 3);
}

TEST_CASE("opencl: a tied table in panels, whose head's gradient is added to that of its rows inside the update") {
    if (opencl_is_here()) check_losses(even, "--update auto --lines 's.layout(wte.weight, panels(16, 1))'", 4);
}

TEST_CASE("opencl: sums of many terms into few elements, and rows of many elements") {
    if (!opencl_is_here()) return;
    json shape = {{"layers", 1}, {"heads", 1},    {"width", 6}, {"context", 83},
                  {"batch", 13}, {"vocab", 4129}, {"lr", 1e-2}, {"clip", 0.7}};
    check_losses(shape, "--update separate", 4);
}

TEST_CASE("opencl: rotary positions and shared heads of keys; documents and padding") {
    if (!opencl_is_here()) return;
    const Scratch folder;
    for (const auto &[program, flags] : std::vector<std::pair<std::string, std::string>>{
             {"generators/llama",
              "--param layers=1 --param heads=4 --param kv-heads=2 --param width=32 --param hidden=48 "
              "--param vocab=19 --param context=37 --param batch=2"},
             {"tests/packed", "--param context=37 --param batch=2"},
             {"tests/packed", "--param context=48 --param batch=2"},
         }) {
        CAPTURE(program);
        CAPTURE(flags);
        const Trained cpu = train_bundle(compile_program(program, flags, folder / "cpu"));
        const Trained opencl =
            train_bundle(compile_program(program, flags + " --device opencl", folder / "opencl"), 1, 0, "opencl");
        for (size_t s = 0; s < cpu.losses.size(); s++) CHECK(std::abs(cpu.losses[s] - opencl.losses[s]) < 1e-4);
        CHECK(cpu.losses.front() != cpu.losses.back());
    }
}

}  // namespace cryolite::test
