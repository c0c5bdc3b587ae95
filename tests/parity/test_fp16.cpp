// Steps in fp16: what is stored, the updates that are withheld, losses beside fp32's, and going on from files with the
// same bits.

#include "bundle/plan_json.h"
#include "runtime/files/safetensors.h"
#include "tests/parity/scaled_case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

TEST_CASE("fp16: an overflow in one of two micro-batches withholds the update of both, once") {
    for (int workers : {1, 2})
        for (int which : {0, 1}) {
            CAPTURE(workers);
            CAPTURE(which);
            ScaledCase c("--optimizer adamw --accumulate", workers);
            c.begin({.scale = 4096});
            c.step_of({1, 1});
            const auto before = c.kept();
            c.step_of({which == 0 ? ScaledCase::overflowing : 1, which == 1 ? ScaledCase::overflowing : 1});
            CHECK(c.kept() == before);
            CHECK(c.trainer.withheld() == 1);
            CHECK(c.trainer.loss_scale() == 2048);
            c.step_of({1, 1});
            CHECK(c.kept() != before);
            CHECK(c.trainer.withheld() == 1);
        }
}

namespace {

/// Two good steps, one that overflows and one more are those three without the one, to the bit.
void check_withheld(const std::string &flags, int workers = 1) {
    CAPTURE(flags);
    ScaledCase c(flags, workers), twin(flags, workers);
    for (ScaledCase *one : {&c, &twin}) one->begin({.scale = 4096}), one->trainer.set("clip", 0.25);
    for (int k = 0; k < 2; k++) c.step(), twin.step();
    const auto before = c.kept();
    c.overflow(), twin.skip();
    CHECK(c.kept() == before);
    CHECK(c.trainer.withheld() == 1);
    CHECK(c.trainer.loss_scale() == 2048);
    twin.trainer.set_loss_scale(2048);
    CHECK(c.step() == twin.step());
    CHECK(c.kept() == twin.kept());
    CHECK(c.kept() != before);
}

}  // namespace

TEST_CASE("fp16: an update of any rule is withheld where a gradient overflows, whatever its place") {
    check_withheld("--optimizer adamw --update backward --clip");
    check_withheld("--optimizer sgd --update forward");
    check_withheld("--optimizer lion --update backward");
    check_withheld("--optimizer lars --update separate --clip");
    check_withheld("--optimizer root --update backward");
}

TEST_CASE("fp16: the same of all rules, places and workers" * slow()) {
    for (const char *optimizer : {"adamw", "sgd", "lion", "lars", "root"})
        for (const char *clip : {"", " --clip"}) {
            for (const char *update : {"separate", "backward", "forward"})
                check_withheld(fmt::format("--optimizer {} --update {}{}", optimizer, update, clip));
            check_withheld(fmt::format("--optimizer {}{}", optimizer, clip), 2);
        }
}

TEST_CASE("fp16: clipping goes by the norm of gradients that were never scaled") {
    for (const char *update : {"separate", "backward"}) {
        ScaledCase c(fmt::format("--optimizer sgd --clip --update {}", update));
        c.begin({.scale = 512});
        c.trainer.set("clip", 0.01);
        c.step();
        double square = 0;
        for (double n : c.numbers<double>(Role::norms)) square += n;
        const double norm = std::sqrt(square) / 512;
        CHECK(norm > 0.02);  // or there is nothing to clip
        CHECK(norm < 2);
        const std::vector<float> factor = c.numbers<float>(Role::scale);
        CHECK(factor.at(0) == float(float(0.01 / (norm + 1e-6)) / 512));
        CHECK(factor.at(1) == 1);
    }
}

TEST_CASE("fp16: any scale that neither overflows nor loses adjoints makes the same bits") {
    std::vector<std::map<std::string, std::string>> all;
    for (double scale : {1024.0, 16384.0}) {
        ScaledCase c("--optimizer adamw");
        c.begin({.scale = scale});
        for (int k = 0; k < 3; k++) c.step();
        CHECK(c.trainer.withheld() == 0);
        all.push_back(c.kept());
    }
    CHECK(all[0] == all[1]);
}

TEST_CASE("fp16: what products read is stored in two bytes, each the nearest to its master") {
    ScaledCase c("--optimizer adamw --group none");
    c.step();
    const Plan &plan = c.trainer.plan();
    auto buffer = [&](Role role, const char *name) -> const PlanBuffer & {
        return plan.buffers.at(size_t(plan.find(role, name)));
    };
    for (const char *name : {"first.weight", "last.weight"}) {
        const PlanBuffer &w = buffer(Role::parameter, name);
        CHECK(w.type == "float16");
        CHECK(w.bytes == 2 * w.stored_elements());
        const auto narrow = c.numbers<uint16_t>(Role::parameter, name);
        const auto master = c.numbers<float>(Role::master, std::string(name) + ".master");
        REQUIRE(narrow.size() == master.size());
        bool differs = false;
        for (size_t i = 0; i < narrow.size(); i++) {
            CHECK(narrow[i] == half_from_float(master[i]));
            differs |= float_from_half(narrow[i]) != master[i];
        }
        CHECK(differs);
    }
    const PlanBuffer &hidden = buffer(Role::activation, "first"), &adjoint = buffer(Role::activation, "d(relu)");
    for (const PlanBuffer *b : {&hidden, &adjoint}) {
        CHECK(b->type == "float16");
        CHECK(b->bytes == 2 * b->elements());
    }
    CHECK(buffer(Role::parameter, "first.bias").type == "float32");
    for (const PlanBuffer &b : plan.buffers)
        if (b.role == Role::gradient || b.role == Role::state) CHECK(b.type == "float32");
    int takes = 0;
    for (const PlanKernel &k : plan.kernels)
        for (const PlanArgument &a : k.args) takes += a.type == "float16";
    CHECK(takes >= 8);
    if (__builtin_cpu_supports("f16c") && std::system("objdump --version > /dev/null 2>&1") == 0) {
        const std::string code = "objdump -d '" + (c.path() / "kernels.so").string() + "' | grep -q ";
        CHECK(std::system((code + "vcvtph2ps").c_str()) == 0);
        CHECK(std::system((code + "vcvtps2ph").c_str()) == 0);
    }
}

TEST_CASE("fp16: going on from files gives the same bits, of the scale and its counters too") {
    ScaledCase whole("--optimizer adamw"), first("--optimizer adamw"), second("--optimizer adamw");
    const ScaleModel m{.scale = 256, .interval = 3};
    for (ScaledCase *c : {&whole, &first, &second}) c->begin(m);
    auto steps = [](ScaledCase &c, int from, int to) {
        for (int k = from; k < to; k++) k == 3 ? c.overflow() : c.step();
    };
    steps(whole, 0, 11), steps(first, 0, 5);
    for (int k = 0; k < 5; k++) second.skip();
    Scratch folder;
    first.trainer.write_parameters(folder / "model");
    first.trainer.write_state(folder / "state");
    second.trainer.load_parameters(folder / "model", [](const std::string &name) { return name; });
    second.trainer.read_state(folder / "state");
    CHECK(second.trainer.loss_scale() == 256);
    CHECK(second.numbers<int32_t>(Role::loss_scaler, "good_steps").at(0) == 1);
    steps(second, 5, 11);
    CHECK(second.kept() == whole.kept());
    CHECK(second.trainer.loss_scale() == whole.trainer.loss_scale());
    CHECK(whole.trainer.loss_scale() == 1024);
    CHECK(second.numbers<int32_t>(Role::count) == whole.numbers<int32_t>(Role::count));
    second.trainer.forget_steps();
    CHECK(second.trainer.loss_scale() == 256);
}

TEST_CASE("fp16: a checkpoint without a moment, the scale, its counters or those of updates is refused by name") {
    ScaledCase c("--optimizer adamw");
    c.begin({.scale = 256});
    for (int k = 0; k < 2; k++) c.step();
    Scratch folder;
    c.trainer.write_state(folder / "state");
    c.step();
    const auto before = c.kept();  // nothing of the file is read where a part of it lacks
    const SafetensorsFile whole(folder / "state");
    std::vector<std::string> names = {"loss_scale", "loss_scale_steps", "updates"};
    for (const PlanBuffer &b : c.trainer.plan().buffers)
        if (b.role == Role::state) names.push_back(b.name);
    CHECK(names.size() >= 5);  // both moments of a parameter, at least
    CHECK(names.size() == whole.entries().size());
    for (const std::string &missing : names) {
        CAPTURE(missing);
        std::vector<TensorSpec> rest;
        for (const TensorEntry &e : whole.entries())
            if (e.name != missing) rest.push_back(e);
        REQUIRE(rest.size() + 1 == whole.entries().size());
        SafetensorsWriter less(folder / "less", rest);
        for (const TensorSpec &t : rest) {
            std::vector<std::byte> bytes(t.bytes());
            whole.read(whole.at(t.name), 0, bytes);
            less.write(t.name, std::span<const std::byte>(bytes));
        }
        less.finish();
        CHECK_ERROR(c.trainer.read_state(folder / "less"),
                    (folder / "less").string() + ": no tensor \"" + missing + "\" among its ");
        CHECK(c.kept() == before);
    }
}

TEST_CASE("fp16: a scale that is no power of two, or that a plan has not, is refused") {
    ScaledCase c("--optimizer sgd");
    for (double bad : {0.0, -1024.0, double(NAN), double(INFINITY), 3.0, 0.5, 0x1p25})
        CHECK_ERROR(c.trainer.set_loss_scale(bad), "expected a power of two from 1 to 16777216");
    CHECK(c.trainer.loss_scale() == 65536);
}

TEST_CASE("fp16: a damaged plan of it is refused") {
    ScaledCase c("--optimizer sgd");
    const json plan = json::parse(read_file(c.path() / "plan.json"));
    auto refused = [&](const char *role, const char *member, const json &value, const char *words) {
        json bad = plan;
        for (json &b : bad["buffers"])
            if (b["role"] == role) b[member] = value;
        CHECK_ERROR(read_plan(bad.dump(), "plan.json"), words);
    };
    refused("master", "parameter", plan["buffers"].size() - 1, "is no master of");
    refused("master", "role", "weights", "\"weights\" is no role of an array");
    refused("loss_scaler", "shape", {4}, "has 4 bytes for [4] of");
    refused("loss_scaler", "type", "int32", "its scale of the loss has 'loss_scale'");
    refused("loss_scaler", "name", "loss_scale", "for good_steps");
    json unnamed = plan;
    for (json &name : unnamed["scalars"])
        if (name == "loss_scale_growth") name = "growth";
    CHECK_ERROR(read_plan(unnamed.dump(), "plan.json"), "its scale of the loss has no loss_scale_growth");
}

TEST_CASE("fp16: a scale stays where its inverse is finite, and steps that leave it below 1 are counted") {
    ScaledCase c("--optimizer sgd");
    c.begin({.scale = 2, .backoff = 0x1p-10});
    for (uint64_t k = 1; k <= 14; k++) {
        c.step(INFINITY);
        CHECK(c.trainer.low_scale_in_a_row() == k);
    }
    CHECK(c.trainer.loss_scale() == 0x1p-126);
    CHECK(c.trainer.withheld() == 14);
    c.trainer.set("loss_scale_interval", 1), c.trainer.set("loss_scale_growth", 65536);
    for (int k = 0; k < 8; k++) c.step();
    CHECK(c.trainer.loss_scale() == 4);
    CHECK(c.trainer.low_scale_in_a_row() == 0);
}

TEST_CASE("fp16: the steps that PyTorch's GradScaler skips are withheld, and the scales are its own") {
    const json g = json::parse(read_file(source_file("tests/parity/fp16_goldens.json")));
    ScaledCase c("--optimizer sgd");
    ScaleModel m{.scale = g.at("scale"), .growth = g.at("growth"), .backoff = g.at("backoff")};
    m.interval = g.at("interval");
    c.begin(m);
    c.trainer.set("lr", g.at("lr")), c.trainer.set("weight-decay", 0);
    std::vector<int> withheld;
    std::vector<double> exponents;
    for (int k = 0; k < g.at("steps"); k++) {
        const uint64_t before = c.trainer.withheld();
        c.step(g.at("spikes").at(size_t(k)));
        if (c.trainer.withheld() > before) withheld.push_back(k);
        exponents.push_back(std::log2(c.trainer.loss_scale()));
    }
    CHECK(withheld == g.at("skipped").get<std::vector<int>>());
    CHECK(exponents == g.at("exponents").get<std::vector<double>>());
    CHECK(withheld.size() >= 20);
}

namespace {

/// What a trainer asks of a device in a step, in order.
class WatchedDevice : public Device {
public:
    std::vector<std::string> asked;

    std::string name() const override { return inner->name(); }
    DeviceMemory allocate(size_t bytes, const std::string &what) override { return inner->allocate(bytes, what); }
    void release(DeviceMemory &memory) override { inner->release(memory); }
    void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) override {
        asked.push_back("upload");
        inner->upload(to, offset, from, bytes);
    }
    void download(void *to, const DeviceMemory &from, size_t offset, size_t bytes) override {
        asked.push_back("download");
        inner->download(to, from, offset, bytes);
    }
    void bind(halide_buffer_t &argument, const DeviceMemory &memory, size_t offset) override {
        inner->bind(argument, memory, offset);
    }
    CallFailure run(std::span<const KernelCall> calls, Replay *) override {
        asked.push_back("run");
        return inner->run(calls);
    }
    double idle_seconds() const override { return inner->idle_seconds(); }
    int threads() const override { return inner->threads(); }
    void *context() override { return inner->context(); }
    void finish() override {
        asked.push_back("finish");
        inner->finish();
    }
    std::string last_error() override { return inner->last_error(); }

private:
    std::unique_ptr<Device> inner = make_device("cpu", 1);
};

}  // namespace

TEST_CASE("fp16: a step asks of its device what a step in fp32 does, and waits for it once") {
    auto asked = [](const char *precision) {
        Scratch folder;
        const auto bundle =
            compile_program("tests/scaled", fmt::format("--precision {} --param batch=8 --optimizer adamw", precision),
                            folder / "bundle");
        WatchedDevice device;
        Trainer trainer(bundle, device);
        trainer.initialise(1);
        Batch batch;
        batch.features.assign(64, 0.1f), batch.numbers.assign(8, 1e12f);
        device.asked.clear();
        trainer.step([&]() -> const Batch & { return batch; }, 1);
        CHECK(std::ranges::count(device.asked, "finish") == 1);
        CHECK(device.asked.back() == "finish");
        return device.asked;
    };
    const std::vector<std::string> fp32 = asked("fp32");
    std::vector<std::string> fp16 = asked("fp16");
    REQUIRE(fp16.size() > 2);
    for (int k = 0; k < 4; k++) {  // whether the update was withheld; the scale and its counters
        CHECK(fp16[fp16.size() - 2] == "download");
        fp16.erase(fp16.end() - 2);
    }
    CHECK(fp16 == fp32);
    CHECK(std::ranges::count(fp32, "run") == 2);
}

namespace {

void check_losses(const char *name, const char *update) {
    CAPTURE(name);
    CAPTURE(update);
    const json g = json::parse(read_file(source_file("tests/parity/goldens.json"))).at(name);
    TrainingCase c(g["args"], std::string("--precision fp16 --update ") + update);
    for (double expected : g["losses"]) CHECK(c.step() == doctest::Approx(expected).epsilon(1e-3));
    CHECK(c.trainer.withheld() == 0);
}

}  // namespace

TEST_CASE("fp16: losses of ten steps are those of fp32 within a thousandth") {
    check_losses("odd", "separate");
    check_losses("odd, clipped", "backward");
    check_losses("even, accumulated", "forward");
}

TEST_CASE("fp16: 200 losses of nano on text are within 0.02 of fp32's" * slow()) {
    const json args = {{"layers", 4}, {"heads", 4},  {"width", 128}, {"context", 64},
                       {"batch", 12}, {"vocab", 65}, {"lr", 1e-3},   {"clip", 1.0}};
    const std::string text = read_file(source_file("apps/gpt/data/tinyshakespeare.txt"));
    std::string letters = text;
    std::ranges::sort(letters);
    letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
    auto token = [&](size_t i) { return int32_t(letters.find(text[i % text.size()])); };
    TrainingCase whole(args, ""), narrow(args, "--precision fp16");
    double worst = 0;
    Batch batch;
    batch.tokens.resize(12 * 64), batch.targets.resize(12 * 64);
    for (uint64_t k = 0; k < 200; k++) {
        for (size_t s = 0; s < 12; s++)
            for (size_t t = 0, at = formula_bits("windows", k * 12 + s) % (text.size() - 65); t < 64; t++)
                batch.tokens[s * 64 + t] = token(at + t), batch.targets[s * 64 + t] = token(at + t + 1);
        auto next = [&]() -> const Batch & { return batch; };
        const double expected = whole.trainer.step(next, 1), got = narrow.trainer.step(next, 1);
        worst = std::max(worst, std::fabs(expected - got));
        if (k == 199) CHECK(expected < 3);
    }
    MESSAGE("the largest difference is ", worst);
    CHECK(worst < 0.02);
}

}  // namespace cryolite::test
