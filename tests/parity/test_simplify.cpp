// A model with equal calls, and with operators that do nothing: it trains as one without them does, and as float64 says
// of what was written.

#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

constexpr int columns = 13, classes = 3, rows = 8;

std::string flags(int kind) {
    return fmt::format("--optimizer sgd --param kind={} --param classes={} --param batch={}", kind, classes, rows);
}

class PairsCase {
public:
    explicit PairsCase(int kind)
        : bundle(compile_program("tests/pairs", flags(kind), folder / "bundle")), device(make_device("cpu", 1)),
          trainer(bundle, *device) {
        for (size_t b = 0; b < plan().buffers.size(); b++) {
            const PlanBuffer &w = plan().buffers[b];
            if (w.role != Role::parameter) continue;
            std::vector<float> values(size_t(w.elements()));
            for (size_t i = 0; i < values.size(); i++) values[i] = 3 * formula_weight(w.name, i);
            trainer.put(int(b), values);
            parameters[w.name] = values;
        }
        trainer.set("lr", 0.05), trainer.set("beta1", 0);
        for (int i = 0; i < rows * columns; i++) batch.features.push_back(10 * formula_weight("features", uint64_t(i)));
        for (int i = 0; i < rows; i++) batch.targets.push_back(int32_t(formula_bits("targets", uint64_t(i)) % classes));
    }
    std::vector<double> losses(int steps) {
        std::vector<double> list;
        for (int s = 0; s < steps; s++) list.push_back(trainer.step([&]() -> const Batch & { return batch; }, 1));
        return list;
    }
    const Plan &plan() const { return bundle->plan; }
    size_t operations() const {
        size_t n = 0;
        for (const auto &[name, calls] : plan().plans)
            for (const PlanCall &c : calls) n += c.stages.size();
        return n;
    }

    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::unique_ptr<Device> device;
    Trainer trainer;
    json parameters;
    Batch batch;
};

}  // namespace

TEST_CASE("simplify: a model with equal calls is, to the bit, the model that makes them once") {
    PairsCase written(1), by_hand(2);
    CHECK(written.operations() == by_hand.operations());
    const std::vector<double> losses = written.losses(5);
    CHECK(losses.back() < 0.99 * losses.front());
    CHECK(losses == by_hand.losses(5));
}

TEST_CASE("simplify: the losses are those of what was written, in float64 and without passes") {
    constexpr int steps = 5;
    PairsCase c(1);
    const json features = c.batch.features, targets = c.batch.targets;
    json job = {{"scalars", {{"lr", 0.05}, {"beta1", 0.0}, {"weight-decay", 0.0}}},
                {"parameters", c.parameters},
                {"batches", json::array()}};
    for (int s = 0; s < steps; s++) job["batches"].push_back({{"input", features}, {"targets", targets}});
    write_file_atomic(c.folder / "job", job.dump());
    const std::string command = fmt::format("'{}/tests/pairs' {} --reference '{}' > '{}'", CRYOLITE_BINARY_DIR,
                                            flags(1), (c.folder / "job").string(), (c.folder / "answer").string());
    REQUIRE(std::system(command.c_str()) == 0);
    const std::vector<double> expected = json::parse(read_file(c.folder / "answer")).at("losses");
    c.trainer.set("weight-decay", 0);
    const std::vector<double> losses = c.losses(steps);
    for (int s = 0; s < steps; s++) CHECK(losses[size_t(s)] == doctest::Approx(expected[size_t(s)]).epsilon(2e-6));
}

}  // namespace cryolite::test
