#pragma once
// A regression of tests/programs/scaled.cpp whose gradients overflow at the steps that a test chooses, and what doubles
// make of the scale of the loss.

#include "tests/parity/on_recorder.h"

namespace cryolite::test {

/// The algorithm of torch.amp.GradScaler.
struct ScaleModel {
    double scale, growth = 2, backoff = 0.5;
    int interval = 2000, good = 0, low = 0;

    void step(bool overflows) {
        good = overflows ? 0 : good + 1;
        if (overflows) scale *= backoff;
        if (good == interval) scale *= growth, good = 0;
        low = scale < 1 ? low + 1 : 0;
    }
};

struct ScaledCase {
    static constexpr int columns = 8, examples = 8;

    /// `recorder`: on the device cuda, against the recording driver, which UseRecorder has to be in place for.
    explicit ScaledCase(const std::string &flags, int workers = 1, bool recorder = false)
        : bundle(open(flags, workers, recorder)), devices(of_one_thread(workers, recorder ? "cuda" : "cpu")),
          trainer(bundle, pointers_of(devices), processes()) {
        for (size_t b = 0; b < trainer.plan().buffers.size(); b++) {
            const PlanBuffer &buffer = trainer.plan().buffers[b];
            if (buffer.role != Role::parameter) continue;
            std::vector<float> w(size_t(buffer.elements()));
            for (size_t i = 0; i < w.size(); i++) w[i] = formula_weight(buffer.name, i);
            trainer.put(int(b), w);
        }
    }
    /// The scale in the first step, and what changes it.
    void begin(const ScaleModel &m) {
        trainer.set_loss_scale(m.scale);
        trainer.set("loss_scale_growth", m.growth), trainer.set("loss_scale_backoff", m.backoff);
        trainer.set("loss_scale_interval", m.interval);
    }
    /// A step one of whose targets, the first one's unless said, is `spike` times what it was.
    double step(double spike = 1, int example = 0) {
        const uint64_t at = taken++;
        return trainer.step([&]() -> const Batch & { return batch(at, spike, example); }, 1);
    }
    /// As `train` takes it.
    const StepResult *advance(double spike) {
        const uint64_t at = taken++;
        return trainer.advance([&]() -> const Batch & { return batch(at, spike); }, 1);
    }
    /// Adjoints are infinite as fp16, whatever the scale is; the loss is not.
    static constexpr double overflowing = 1e12;
    double overflow(int example = 0) { return step(overflowing, example); }
    /// A step of several micro-batches, each with its spike.
    double step_of(const std::vector<double> &spikes) {
        size_t micro = 0;
        return trainer.step([&]() -> const Batch & { return batch(taken++, spikes.at(micro++ % spikes.size())); },
                            int(spikes.size()));
    }
    void skip() { taken++, trainer.set_steps(trainer.steps() + 1); }

    /// Features of 1/16 at most, so that gradients of weights are smaller than the adjoints that they are made of.
    const Batch &batch(uint64_t at, double spike, int spiked = 0) {
        current.features.resize(examples * columns), current.numbers.resize(examples);
        auto unit = [&](const char *name, uint64_t i) { return double(formula_bits(name, i) >> 11) * 0x1p-53; };
        for (uint64_t i = 0; i < examples * columns; i++)
            current.features[i] = float(0.125 * (unit("features", at * examples * columns + i) - 0.5));
        for (uint64_t i = 0; i < examples; i++) {
            const double target = 0.25 + 0.25 * unit("targets", at * examples + i);
            current.numbers[i] = float((i == 0 ? target : target / 16) * (int(i) == spiked ? spike : 1));
        }
        return current;
    }
    std::string raw(Role role, const std::string &name = "", int worker = 0) {
        const int b = trainer.plan().find(role, name);
        REQUIRE(b >= 0);
        std::string bytes(size_t(trainer.plan().buffers[size_t(b)].bytes), 0);
        trainer.executor(worker).download(bytes.data(), b, bytes.size());
        return bytes;
    }
    template <typename T> std::vector<T> numbers(Role role, const std::string &name = "", int worker = 0) {
        const std::string bytes = raw(role, name, worker);
        std::vector<T> list(bytes.size() / sizeof(T));
        std::memcpy(list.data(), bytes.data(), bytes.size());
        return list;
    }
    /// Every bit that is kept from step to step, but the counts and the scale.
    std::map<std::string, std::string> kept() {
        trainer.flush();
        std::map<std::string, std::string> all;
        for (const PlanBuffer &b : trainer.plan().buffers)
            if (b.role == Role::parameter || b.role == Role::state || b.role == Role::master)
                all[b.name] = raw(b.role, b.name);
        return all;
    }

private:
    Scratch folder;
    uint64_t taken = 0;
    Batch current;
    std::shared_ptr<Bundle> open(const std::string &flags, int workers, bool recorder) {
        const auto compiled = compile_program(
            "tests/scaled",
            fmt::format("--precision fp16 --param batch={} --workers {} {}", examples / workers, workers, flags),
            path());
        return recorder ? on_recorder(path(), folder / "recorded", false).bundle : compiled;
    }
    static std::vector<std::unique_ptr<Device>> of_one_thread(int workers, const std::string &on) {
        std::vector<std::unique_ptr<Device>> list;
        for (int w = 0; w < workers; w++) list.push_back(make_device(on, 1));
        return list;
    }

public:
    std::shared_ptr<Bundle> bundle;

private:
    std::vector<std::unique_ptr<Device>> devices;

public:
    Trainer trainer;
    fs::path path() const { return folder / "bundle"; }
};

}  // namespace cryolite::test
