#pragma once
// Training of tests/programs/views.cpp, on the CPU, on OpenCL, or on CUDA's recording driver.

#include "tests/parity/on_recorder.h"

namespace cryolite::test {

class ViewsCase {
    static constexpr int columns = 35, classes = 3;

public:
    /// `on`: a device; "recorder": CUDA with the CPU's kernels in place of PTX, which UseRecorder has to be in place
    /// for. The second part of a slice begins after 128 rows where there are more, else after 16.
    explicit ViewsCase(int kind, const std::string &flags = "", int workers = 1, const std::string &on = "cpu",
                       int rows = 29)
        : rows(rows), bundle(open(kind, flags, workers, on)),
          devices(devices_of(workers, on == "recorder" ? "cuda" : on)),
          trainer(bundle, pointers_of(devices), known_processes()), workers(workers) {
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

    /// A step of one micro-batch.
    double step() {
        return trainer.step([&]() -> const Batch & { return next(); }, 1);
    }

private:
    const int rows;
    Scratch folder;

public:
    std::shared_ptr<Bundle> bundle;

private:
    std::vector<std::unique_ptr<Device>> devices;

public:
    Trainer trainer;

private:
    const int workers;
    Batch batch;
    uint64_t at = 0;

    std::shared_ptr<Bundle> open(int kind, const std::string &flags, int workers, const std::string &on) const {
        const auto compiled = compile_program(
            "tests/views",
            fmt::format("--optimizer sgd --param kind={} --param half={} --param classes={} --param batch={} "
                        "--workers {} --device {} {}",
                        kind, rows > 128 ? 128 : 16, classes, rows, workers, on == "recorder" ? "cpu" : on, flags),
            folder / "bundle");
        return on == "recorder" ? on_recorder(folder / "bundle", folder / "recorded", false).bundle : compiled;
    }
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

}  // namespace cryolite::test
