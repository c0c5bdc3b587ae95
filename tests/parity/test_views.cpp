// Reshapes and slices that are views train as those that are copies, to the bit, with fewer kernels and bytes:
// tests/programs/views.cpp.

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

constexpr int columns = 35, classes = 3, rows = 29;

class ViewsCase {
public:
    explicit ViewsCase(int kind, const std::string &flags = "", int workers = 1)
        : bundle(compile_program("tests/views",
                                 fmt::format("--optimizer sgd --param kind={} --param classes={} --param batch={} "
                                             "--workers {} {}",
                                             kind, classes, rows, workers, flags),
                                 folder / "bundle")),
          devices(devices_of(workers, "cpu")), trainer(bundle, pointers_of(devices), known_processes()),
          workers(workers) {
        for (size_t b = 0; b < plan().buffers.size(); b++) {
            const PlanBuffer &w = plan().buffers[b];
            if (w.role != Role::parameter) continue;
            std::vector<float> values(size_t(w.elements()));
            for (size_t i = 0; i < values.size(); i++)
                values[i] = 3 * formula_weight(w.name, i) + float(w.name == "norm.weight");
            trainer.put(int(b), values);
        }
        trainer.set("lr", 0.1), trainer.set("beta1", 0.5);
    }
    std::vector<double> losses(int steps, int accumulate = 1) {
        std::vector<double> list;
        for (int s = 0; s < steps; s++)
            list.push_back(trainer.step([&]() -> const Batch & { return next(); }, accumulate));
        list.push_back(trainer.evaluate(next(), rows * workers));
        list.push_back(trainer.evaluate(next(), 17));
        return list;
    }
    const Plan &plan() const { return bundle->plan; }
    size_t kernels(const std::string &entry) const { return plan().plans.at(entry).size(); }
    int64_t bytes(const std::string &entry) const {
        int64_t all = 0;
        for (const PlanCall &c : plan().plans.at(entry)) all += c.bytes;
        return all;
    }
    /// The kernels that hold a stage of this name.
    int stages(const std::string &name) const {
        int n = 0;
        for (const auto &[entry, calls] : plan().plans)
            for (const PlanCall &c : calls) n += int(std::ranges::count(c.stages, name, &PlanCall::Stage::name));
        return n;
    }

private:
    Scratch folder;
    std::shared_ptr<Bundle> bundle;
    std::vector<std::unique_ptr<Device>> devices;

public:
    Trainer trainer;

private:
    const int workers;
    Batch batch;
    uint64_t at = 0;

    const Batch &next() {
        batch.features.clear(), batch.targets.clear();
        for (int i = 0; i < rows * workers; i++, at++) {
            for (int c = 0; c < columns; c++)
                batch.features.push_back(5 * formula_weight("features", at % 37 * columns + uint64_t(c)));
            batch.targets.push_back(int32_t(formula_bits("targets", at % 37) % classes));
        }
        return batch;
    }
};

void check_equal(const std::string &flags, int accumulate = 1, int workers = 1) {
    CAPTURE(flags);
    ViewsCase views(1, flags, workers), copies(2, flags, workers);
    for (const char *entry : {"forward", "step"}) {
        CAPTURE(entry);
        CHECK(views.kernels(entry) < copies.kernels(entry));
        CHECK(views.bytes(entry) < copies.bytes(entry));
    }
    const std::vector<double> losses = views.losses(5, accumulate);
    CHECK(losses == copies.losses(5, accumulate));
    CHECK(losses[4] != losses[0]);
}

}  // namespace

TEST_CASE("views: training and evaluation have the bits of copies, with fewer kernels, bytes and memory") {
    check_equal("");
    ViewsCase views(1), copies(2);
    CHECK(views.stages("reshape") == 0);
    CHECK(views.stages("slice") == 1);  // along an inner dimension
    CHECK(copies.stages("reshape") == 4);
    CHECK(copies.stages("slice") == 3);
    CHECK(copies.kernels("forward") - views.kernels("forward") == 6);
    CHECK(views.plan().arena < copies.plan().arena);
    const std::vector<double> losses = views.losses(20);
    CHECK(losses[19] < 0.95 * losses[0]);
}

TEST_CASE("views: the same in 16 bits, over micro-batches, workers and with updates beside their gradients" * slow()) {
    check_equal("--precision bf16");
    check_equal("--accumulate --update separate", 3);
    check_equal("--update backward", 1, 2);
    check_equal("--clip");
}

TEST_CASE("views: the same within a budget, which takes a value with its views" * slow()) {
    ViewsCase whole(1, "--update separate");
    int64_t kept = 0;
    for (const PlanBuffer &b : whole.plan().buffers)
        if (b.stored && b.role != Role::activation) kept += b.bytes;
    const std::string budget = fmt::format("--update separate --budget {}", kept + whole.plan().arena * 9 / 10);
    ViewsCase tight(1, budget);
    CHECK(tight.plan().arena < whole.plan().arena);
    CHECK(tight.losses(5) == whole.losses(5));
}

}  // namespace cryolite::test
