// Layers that know whether they train: dropout, the same however a batch is cut, and batch norm, as PyTorch has it.

#include <cstring>
#include <fstream>
#include <numeric>

#include "bundle/plan_json.h"
#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

constexpr int columns = 13, classes = 3, rows = 12;

struct Way {
    int accumulate = 1, workers = 1;
    uint64_t seed = 5;
};

/// The model of tests/programs/modes.cpp, with weights and data from a formula. Every step sees the same rows.
class ModesCase {
public:
    explicit ModesCase(int kind, Way way = {})
        : way(way), bundle(compile_program("tests/modes",
                                           fmt::format("--optimizer sgd --param kind={} --param classes={} --param "
                                                       "batch={} --workers {}{}",
                                                       kind, classes, rows / way.accumulate / way.workers, way.workers,
                                                       way.accumulate > 1 ? " --accumulate" : ""),
                                           folder / "bundle")),
          devices(size_t(way.workers)), trainer(bundle, pointers(), processes()) {
        for (size_t b = 0; b < trainer.plan().buffers.size(); b++) {
            const PlanBuffer &w = trainer.plan().buffers[b];
            if (w.role != Role::parameter) continue;
            std::vector<float> values(size_t(w.elements()), float(w.init.value));
            for (size_t i = 0; i < values.size() && !w.of_layer; i++)
                values[i] = (w.name == "norm.weight" ? 1 : 0) + 5 * formula_weight(w.name, i);
            trainer.put(int(b), values);
        }
        trainer.set("lr", 0.05), trainer.set("beta1", 0), trainer.seed_steps(way.seed);
    }
    double step() {
        int at = 0;
        const int each = rows / way.accumulate;
        return trainer.step([&]() -> const Batch & { return now = part(each * at++, each); }, way.accumulate);
    }
    Batch part(int begin, int count) const {
        Batch b;
        for (int i = begin * columns; i < (begin + count) * columns; i++)
            b.features.push_back(10 * formula_weight("features", uint64_t(i)));
        for (int i = begin; i < begin + count; i++)
            b.targets.push_back(int32_t(formula_bits("targets", uint64_t(i)) % classes));
        return b;
    }
    std::vector<float> values(const std::string &name) {
        const int b = trainer.plan().find(Role::parameter, name);
        CAPTURE(name);
        REQUIRE(b >= 0);
        std::vector<float> v(size_t(trainer.plan().buffers[size_t(b)].elements()));
        trainer.get(b, v);
        return v;
    }
    std::vector<Device *> pointers() {
        std::vector<Device *> list;
        for (auto &d : devices) list.push_back((d = make_device("cpu", 1)).get());
        return list;
    }

    const Way way;
    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::vector<std::unique_ptr<Device>> devices;
    Trainer trainer;

private:
    Batch now;
};

std::vector<double> losses(ModesCase &c, int steps) {
    std::vector<double> list;
    for (int s = 0; s < steps; s++) list.push_back(c.step());
    return list;
}

void check_near(const std::vector<double> &a, const std::vector<double> &b, double epsilon) {
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); i++) CHECK(a[i] == doctest::Approx(b[i]).epsilon(epsilon));
}

}  // namespace

TEST_CASE("dropout: the same losses however micro-batches and workers cut a batch; others with another seed") {
    ModesCase whole(2), plain(1);
    const std::vector<double> expected = losses(whole, 3), without = losses(plain, 3);
    CHECK(std::abs(expected[0] - without[0]) > 1e-3);
    for (const Way &way : {Way{.accumulate = 2}, Way{.workers = 2}}) {
        CAPTURE(way.accumulate);
        ModesCase c(2, way);
        check_near(losses(c, 3), expected, 2e-6);
    }
    ModesCase again(2), other(2, {.seed = 6}), high(2, {.seed = 5 + (uint64_t{1} << 32)});
    CHECK(losses(again, 3) == expected);
    CHECK(std::abs(other.step() - expected[0]) > 1e-3);
    CHECK(std::abs(high.step() - expected[0]) > 1e-3);
}

TEST_CASE("dropout: evaluation and prediction drop nothing; a resumed run has the same bits") {
    ModesCase c(2), plain(1);
    const Batch batch = c.part(0, rows);
    CHECK(c.trainer.evaluate(batch, rows) == doctest::Approx(plain.step()).epsilon(1e-6));
    const double first = c.step(), partly = c.trainer.evaluate(batch, 5);
    CHECK(c.trainer.evaluate(batch, 5) == partly);
    const auto predicted = c.trainer.predict(batch, rows);
    CHECK(std::vector<float>(predicted.begin(), predicted.end()).size() == rows * classes);
    json plan = json::parse(read_file(c.folder / "bundle" / "plan.json"));
    for (json &b : plan["buffers"])
        if (b["name"] == "mode") b["shape"] = {4}, b["bytes"] = 16;
    CHECK_ERROR(read_plan(plan.dump(), "plan.json"), "the plan plan.json is damaged:");
    Scratch files;
    c.trainer.write_parameters(files / "model"), c.trainer.write_state(files / "state");
    ModesCase resumed(2);
    resumed.trainer.load_parameters(files / "model", [](const std::string &name) { return name; });
    resumed.trainer.read_state(files / "state");
    resumed.trainer.set_steps(1);
    const auto rest = losses(c, 2);
    CHECK(losses(resumed, 2) == rest);
    CHECK(rest[0] != first);
}

TEST_CASE("batch norm: losses, running statistics and evaluations are PyTorch's") {
    const json golden = json::parse(read_file(source_file("tests/parity/goldens.json"))).at("batch norm");
    ModesCase c(3);
    check_near(losses(c, int(golden["losses"].size())), golden["losses"], 2e-6);
    for (const char *name : {"norm.running_mean", "norm.running_var", "norm.weight", "norm.bias", "first.weight"}) {
        CAPTURE(name);
        const std::vector<float> found = c.values(name);
        const std::vector<double> expected = golden["tensors"][name];
        for (size_t i = 0; i < expected.size(); i++)
            CHECK(std::abs(found[i] - expected[i]) < 2e-6 * std::max(1.0, std::abs(expected[i])));
    }
    CHECK(c.trainer.evaluate(c.part(0, rows), rows) == doctest::Approx(double(golden["evaluated"])).epsilon(2e-6));
    // Of some rows alone, and the same again: running statistics, which an evaluation does not change.
    CHECK(c.trainer.evaluate(c.part(0, rows), 5) == doctest::Approx(double(golden["of_five"])).epsilon(2e-6));
    CHECK(c.trainer.evaluate(c.part(0, rows), rows) == doctest::Approx(double(golden["evaluated"])).epsilon(2e-6));
}

TEST_CASE("batch norm: micro-batches each move the statistics, and of several workers the first has them for all") {
    ModesCase parts(3, {.accumulate = 2}), workers(3, {.workers = 2});
    const double one = parts.step(), two = workers.step();
    CHECK(one == doctest::Approx(two).epsilon(1e-6));  // both normalise halves of the batch
    const auto mean_of = [](const std::vector<float> &v) { return std::accumulate(v.begin(), v.end(), 0.0); };
    const double after_both = mean_of(parts.values("norm.running_mean")),
                 after_first = mean_of(workers.values("norm.running_mean"));
    CHECK(after_first != 0);
    CHECK(std::abs(after_both - after_first) > 1e-4);
}

TEST_CASE("batch norm: two calls of a layer move its statistics in their order") {
    ModesCase c(4);
    const std::vector<float> W = c.values("first.weight"), b = c.values("first.bias"), shift = c.values("norm.bias");
    const Batch batch = c.part(0, rows);
    c.step();
    const std::vector<float> found = c.values("norm.running_mean");
    const size_t width = found.size();
    for (size_t o = 0; o < width; o++) {
        double mean =
            b[o];  // of what the first call normalises; the second one normalises rows whose mean is the shift
        for (size_t i = 0; i < batch.features.size(); i++)
            mean += double(batch.features[i]) * W[i % columns * width + o] / rows;
        REQUIRE(std::abs(mean - shift[o]) > 1e-3);
        CHECK(found[o] == doctest::Approx(0.3 * (0.7 * mean + shift[o])).epsilon(1e-4));
    }
}

TEST_CASE("states: saved with the weights and read again; one that a checkpoint lacks is named") {
    ModesCase c(3), resumed(3), plain(1);
    c.step();
    Scratch files;
    c.trainer.write_parameters(files / "model"), c.trainer.write_state(files / "state");
    resumed.trainer.load_parameters(files / "model", [](const std::string &name) { return name; });
    resumed.trainer.read_state(files / "state");
    CHECK(resumed.values("norm.running_var") == c.values("norm.running_var"));
    CHECK(losses(resumed, 2) == losses(c, 2));
    CHECK(resumed.values("norm.running_mean") == c.values("norm.running_mean"));
    CHECK(c.trainer.plan().parameters() == plain.trainer.plan().parameters() + 2 * 17);  // gains and biases alone
    const auto without = [](const std::string &name) { return name == "norm.running_var" ? "" : name; };
    CHECK_ERROR(resumed.trainer.load_parameters(files / "model", without),
                "tensor 'norm.running_var' of shape [17] is missing; take a file of all the model's weights");
}

TEST_CASE("weights: one that is not finite is refused, with its tensor and its place") {
    ModesCase c(1);
    const Scratch files;
    c.trainer.write_parameters(files / "model");
    std::string bytes = read_file(files / "model");
    const float bad = NAN;
    std::memcpy(bytes.data() + bytes.size() - sizeof bad, &bad, sizeof bad);
    std::ofstream(files / "model", std::ios::binary) << bytes;
    const auto same = [](const std::string &name) { return name; };
    CHECK_ERROR(c.trainer.load_parameters(files / "model", same), "has the value nan at index");
    CHECK_ERROR(c.trainer.load_parameters(files / "model", same), "take the weights of an earlier checkpoint");
}

}  // namespace cryolite::test
