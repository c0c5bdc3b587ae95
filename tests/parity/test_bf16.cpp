// Steps in bf16: losses near fp32's, updates that are withheld, and going on from files with the same bits.

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

json golden(const std::string &name) {
    return json::parse(read_file(source_file("tests/parity/goldens.json"))).at(name);
}

/// Every bit that is kept from step to step.
std::map<std::string, std::string> kept(Trainer &t) {
    std::map<std::string, std::string> all;
    for (size_t b = 0; b < t.plan().buffers.size(); b++) {
        const PlanBuffer &buffer = t.plan().buffers[b];
        if (buffer.role != Role::parameter && buffer.role != Role::state && buffer.role != Role::master_low) continue;
        std::string bytes(size_t(buffer.bytes), 0);
        t.executor().download(bytes.data(), int(b), bytes.size());
        all[buffer.name] = bytes;
    }
    return all;
}

std::pair<int, int> updates(Trainer &t) {
    int32_t count[2];
    t.executor().download(count, t.plan().find(Role::count), sizeof count);
    return {count[0], count[1]};
}

}  // namespace

static void check_bf16(const char *name, const char *update) {
    CAPTURE(name);
    CAPTURE(update);
    json g = golden(name);
    TrainingCase c(g["args"], std::string("--precision bf16 --update ") + update);
    for (double expected : g["losses"]) CHECK(c.step() == doctest::Approx(expected).epsilon(5e-3));
    c.trainer.flush();
    CHECK(updates(c.trainer).first == int(g["losses"].size()));
}

TEST_CASE("bf16: losses of ten steps are those of fp32 within a half percent") {
    check_bf16("odd", "separate");
    check_bf16("odd, clipped", "backward");
    check_bf16("even, accumulated", "forward");
}

TEST_CASE("bf16: the same of all shapes, and of all places of an update" * slow()) {
    for (const char *name : {"even", "odd", "odd, clipped", "even, accumulated"})
        for (const char *update : {"separate", "backward", "forward"}) check_bf16(name, update);
}

TEST_CASE("bf16: a gradient that is not finite changes no bit, and the step does not count") {
    for (const char *flags : {"--precision bf16 --update separate", "--precision bf16 --update backward"}) {
        json args = golden("even")["args"];
        TrainingCase c(args, flags), twin(args, flags);
        for (int k = 0; k < 2; k++) c.step(), twin.step();
        const std::vector<float> good = c.values(Role::parameter, "ln_f.weight");
        std::vector<float> bad = good;
        bad[3] = INFINITY;
        c.set_values("ln_f.weight", bad);
        const auto before = kept(c.trainer);
        c.step(), twin.skip();
        CHECK(kept(c.trainer) == before);
        CHECK(updates(c.trainer) == std::pair{2, 1});
        CHECK(c.trainer.withheld() == 1);
        c.set_values("ln_f.weight", good);
        CHECK(c.step() == twin.step());
        CHECK(kept(c.trainer) == kept(twin.trainer));
    }
}

TEST_CASE("bf16: without the check of gradients a step has the same bits, and nothing that is counted") {
    for (const char *name : {"odd", "odd, clipped"}) {
        const json args = golden(name)["args"];
        TrainingCase checked(args, "--precision bf16 --update separate"),
            plain(args, "--precision bf16 --update separate --finite-check off");
        CHECK(checked.trainer.plan().find(Role::count) >= 0);
        CHECK(plain.trainer.plan().find(Role::count) < 0);
        for (int k = 0; k < 3; k++) CHECK(plain.step() == checked.step());
        CHECK(kept(plain.trainer) == kept(checked.trainer));
        CHECK(plain.trainer.withheld() == 0);
    }
}

TEST_CASE("bf16: going on from files gives the same bits") {
    json args = golden("odd")["args"];
    const std::string flags = "--precision bf16 --update auto";
    TrainingCase whole(args, flags), first(args, flags), second(args, flags);
    Scratch folder;
    for (int k = 0; k < 4; k++) whole.step();
    for (int k = 0; k < 2; k++) first.step(), second.skip();
    first.trainer.write_parameters(folder / "model");
    first.trainer.write_state(folder / "state");
    second.trainer.load_parameters(folder / "model", [](const std::string &name) { return name; });
    second.trainer.read_state(folder / "state");
    second.trainer.set_steps(2);
    for (int k = 0; k < 2; k++) second.step();
    CHECK(kept(second.trainer) == kept(whole.trainer));
    CHECK(updates(second.trainer) == updates(whole.trainer));
}

}  // namespace cryolite::test
