// Exponential moving averages of weights: the same bits as a plain loop over the weights of each step, wherever updates
// are, for any number of workers, after a resume.

#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

constexpr int columns = 13, classes = 3, rows = 12;
constexpr double decay = 0.75;

struct Averaging {
    explicit Averaging(const std::string &flags = "", int workers = 1)
        : bundle(compile_program("tests/modes",
                                 fmt::format("--ema --param classes={} --param batch={} --workers {} {}", classes,
                                             rows / workers, workers, flags),
                                 folder / "bundle")),
          devices(size_t(workers)), trainer(bundle, pointers(), processes()) {
        trainer.initialise(3);
        trainer.set("lr", 0.05), trainer.set("ema", decay);
        for (size_t b = 0; b < trainer.plan().buffers.size(); b++)
            if (const PlanBuffer &w = trainer.plan().buffers[b]; w.role == Role::parameter && !w.of_layer)
                names.push_back(w.name);
    }
    double step() {
        return trainer.step([&]() -> const Batch & { return batch; }, 1);
    }
    double evaluated() { return trainer.evaluate(batch, rows); }
    std::vector<float> values(Role role, const std::string &name) {
        const int b = trainer.plan().find(role, name);
        CAPTURE(name);
        REQUIRE(b >= 0);
        std::vector<float> v(size_t(trainer.plan().buffers[size_t(b)].elements()));
        trainer.flush();
        trainer.get(b, v);
        return v;
    }
    std::vector<float> all(Role role, const std::string &ending = "") {
        std::vector<float> list;
        for (const std::string &name : names)
            for (float x : values(role, name + ending)) list.push_back(x);
        return list;
    }
    std::vector<Device *> pointers() {
        std::vector<Device *> list;
        for (auto &d : devices) list.push_back((d = make_device("cpu", 1)).get());
        return list;
    }
    static Batch made() {
        Batch b;
        for (int i = 0; i < rows * columns; i++) b.features.push_back(10 * formula_weight("features", uint64_t(i)));
        for (int i = 0; i < rows; i++) b.targets.push_back(int32_t(formula_bits("targets", uint64_t(i)) % classes));
        return b;
    }

    const Batch batch = made();
    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::vector<std::unique_ptr<Device>> devices;
    Trainer trainer;
    std::vector<std::string> names;
};

}  // namespace

TEST_CASE("averages: as a loop in float64 makes them, wherever updates are, and for several workers") {
    struct Way {
        const char *flags;
        int workers = 1;
    };
    for (const Way &way : {Way{"--optimizer adamw --update backward"}, Way{"--optimizer sgd --update forward"},
                           Way{"--optimizer sgd --update separate", 2}, Way{"--optimizer lion --precision bf16"}}) {
        CAPTURE(way.flags);
        Averaging c(way.flags, way.workers);
        REQUIRE(c.names.size() == 4);
        std::vector<double> expected(c.all(Role::parameter).size());
        for (int s = 0; s < 3; s++) {
            c.step();
            const std::vector<float> w = c.all(Role::parameter);
            for (size_t i = 0; i < w.size(); i++) expected[i] = decay * expected[i] + (1 - decay) * double(w[i]);
        }
        const std::vector<float> kept = c.all(Role::state, ".ema"), weights = c.all(Role::parameter);
        for (size_t i = 0; i < kept.size(); i++) CHECK(kept[i] == doctest::Approx(expected[i]).epsilon(1e-6));
        const double before = c.evaluated();
        double averaged = 0;
        c.trainer.with_averages([&] {
            const std::vector<float> read = c.all(Role::parameter);
            const double whole = 1 - std::pow(decay, 3);
            for (size_t i = 0; i < read.size(); i++) CHECK(read[i] == float(double(kept[i]) / whole));
            averaged = c.evaluated();
        });
        CHECK(averaged != before);
        CHECK(c.evaluated() == before);
        CHECK(c.all(Role::parameter) == weights);
        CHECK_THROWS_AS(c.trainer.with_averages([] { throw Error("stopped"); }), Error);
        CHECK(c.all(Role::parameter) == weights);
    }
}

TEST_CASE("averages: weights are trained with the same bits; resumed, both go on with the same bits") {
    Averaging c("--optimizer adamw"), resumed("--optimizer adamw");
    const std::shared_ptr<Bundle> plain = compile_program(
        "tests/modes", fmt::format("--optimizer adamw --param classes={} --param batch={}", classes, rows),
        c.folder / "plain");
    std::unique_ptr<Device> device = make_device("cpu", 1);
    Trainer without(plain, *device);
    without.initialise(3), without.set("lr", 0.05);
    CHECK(!without.averages());
    CHECK_ERROR(without.with_averages([] {}), "the step keeps no averages of its weights: compile it with --ema");
    int at_first = 0;
    c.trainer.with_averages([&] { at_first++; });  // there is none yet: the weights are what they begin as
    CHECK(at_first == 1);
    for (int s = 0; s < 2; s++) CHECK(c.step() == without.step([&]() -> const Batch & { return c.batch; }, 1));

    c.trainer.write_parameters(c.folder / "model"), c.trainer.write_state(c.folder / "state");
    c.trainer.write_averages(c.folder / "averages");
    const auto same = [](const std::string &name) { return name; };
    resumed.trainer.load_parameters(c.folder / "model", same);
    resumed.trainer.read_state(c.folder / "state");
    resumed.trainer.set_steps(2);
    CHECK(resumed.step() == c.step());
    CHECK(resumed.all(Role::state, ".ema") == c.all(Role::state, ".ema"));
    std::vector<float> read;
    c.trainer.with_averages([&] { read = c.all(Role::parameter); });
    resumed.trainer.write_averages(c.folder / "averages");
    without.load_parameters(c.folder / "averages", same);  // a model as any other
    std::vector<float> first(
        size_t(without.plan().buffers[size_t(without.plan().find(Role::parameter, c.names[0]))].elements()));
    without.get(without.plan().find(Role::parameter, c.names[0]), first);
    CHECK(std::equal(first.begin(), first.end(), read.begin()));
    // One without averages has no state of the name.
    without.write_state(c.folder / "state");
    CHECK_ERROR(resumed.trainer.read_state(c.folder / "state"), ".ema");
}

}  // namespace cryolite::test
