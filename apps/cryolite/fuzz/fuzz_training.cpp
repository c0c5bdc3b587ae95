#include "apps/cryolite/fuzz/fuzz_training.h"

#include <nlohmann/json.hpp>

#include "runtime/device/make_device.h"
#include "runtime/system/rng.h"
#include "runtime/train/trainer.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr int steps = 3;

/// Part `n` of a batch: the examples of one micro-batch over all workers.
Batch part_of(const json &batch, const FuzzCase &c, size_t n) {
    const size_t examples = size_t(c.micro_batch() * c.step.workers), parts = size_t(c.examples) / examples;
    auto part = [&](const char *name, auto &into) {
        const json &all = batch.at(name);
        const size_t each = all.size() / parts;
        for (size_t i = 0; i < each; i++) into.push_back(all[n * each + i]);
    };
    Batch b;
    if (c.kind == 1)
        part("input", b.tokens);
    else
        part("input", b.features);
    if (c.kind == 3)
        part("targets", b.numbers);
    else
        part("targets", b.targets);
    return b;
}

json parameters_of(Trainer &t) {
    json all = json::object();
    for (size_t b = 0; b < t.plan().buffers.size(); b++) {
        const PlanBuffer &w = t.plan().buffers[b];
        if (w.role != Role::parameter) continue;
        std::vector<float> values(size_t(w.elements()));
        t.get(int(b), values);
        all[w.name] = values;
    }
    return all;
}

}  // namespace

std::string job_of(const FuzzCase &c) {
    const int rows = c.examples * (c.kind == 1 ? c.context : 1);
    json batches = json::array();
    for (int s = 0; s < steps; s++) {
        const Rng input(uint64_t(c.data), fmt::format("fuzz input {}", s)),
            target(uint64_t(c.data), fmt::format("fuzz targets {}", s));
        json batch = {{"input", json::array()}, {"targets", json::array()}};
        const int of_input = c.kind == 1 ? rows : rows * c.columns, of_targets = c.kind == 3 ? rows * c.vocab : rows;
        for (int i = 0; i < of_input; i++)
            batch["input"].push_back(c.kind == 1 ? double(input.below(uint64_t(c.vocab), uint64_t(i)))
                                                 : double(float(2 * input.uniform(uint64_t(i)) - 1)));
        for (int i = 0; i < of_targets; i++)
            batch["targets"].push_back(c.kind == 3 ? double(float(2 * target.uniform(uint64_t(i)) - 1))
                                                   : double(target.below(uint64_t(c.vocab), uint64_t(i))));
        batches.push_back(batch);
    }
    // With a large eps the rule of AdamW is smooth where gradients are rounding alone.
    const double rate = c.step.optimizer == "adamw" ? 0.02 : 0.1;
    return json{
        {"batches", batches},
        {"scalars", {{"lr", rate}, {"weight-decay", 0.1}, {"beta1", 0.8}, {"eps", 1e-3}, {"clip", c.step.clip}}}}
        .dump();
}

std::string train_case(const std::filesystem::path &folder, const FuzzCase &c) {
    const json job = json::parse(job_of(c));
    auto bundle = std::make_shared<Bundle>(folder);
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Device *> pointers;
    for (int w = 0; w < c.step.workers; w++) {
        devices.push_back(make_device("cpu", c.step.workers == 1 ? 2 : 1));
        pointers.push_back(devices.back().get());
    }
    Trainer t(std::move(bundle), pointers, known_processes());
    if (t.scales_loss()) t.set_loss_scale(c.step.loss_scale);
    t.initialise(uint64_t(c.data));
    for (auto &[name, value] : job.at("scalars").items()) t.set(name, value);
    json result = {{"initial", parameters_of(t)}};
    Batch current;
    for (const json &batch : job.at("batches")) {
        size_t n = 0;
        result["losses"].push_back(
            t.step([&]() -> const Batch & { return current = part_of(batch, c, n++); }, c.step.accumulate));
    }
    RowWeights among(t.plan());
    double evaluation = 0;
    for (bool counts : {true, false})
        for (int n = 0; n < c.step.accumulate; n++) {
            const Batch batch = part_of(job.at("batches").back(), c, size_t(n));
            if (counts)
                t.count_rows(among, batch, t.batch());
            else
                evaluation += t.evaluate(batch, t.batch(), &among) / c.step.accumulate;
        }
    result["evaluation"] = evaluation;
    t.flush();
    result["withheld"] = t.withheld();
    result["parameters"] = parameters_of(t);
    int64_t bytes = 0;
    for (auto &[role, of_role] : t.plan().memory()) bytes += of_role;
    result["bytes"] = bytes, result["arena"] = t.plan().arena;
    return result.dump();
}

}  // namespace cryolite
