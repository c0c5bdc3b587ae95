#pragma once
// A training case compiled by the generator program as the command would, and run: numbers from a
// formula that make_goldens.py computes too.

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/device/make_device.h"
#include "runtime/plan/layout.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/formula.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

using nlohmann::json;

inline float formula_weight(const std::string &name, uint64_t i) {
    bool gain = name.find("ln_") != std::string::npos && name.ends_with("weight");
    return float((gain ? 1.0 : 0.0) + 0.2 * (double(formula_bits(name, i) >> 11) * 0x1p-53 - 0.5));
}

/// The program of this name with these flags; kernels are kept in the build folder.
inline std::shared_ptr<Bundle> compile_program(const std::string &program, const std::string &flags,
                                               const fs::path &bundle, std::string *refusal = nullptr) {
    std::string build = CRYOLITE_BINARY_DIR, words = bundle.string() + ".err";
    std::string command = "'" + build + "/" + program + "' --bundle '" + bundle.string() + "' --store '" + build +
                          "/test_kernels' " + flags + " > /dev/null 2> '" + words + "'";
    CAPTURE(command);
    const bool done = std::system(command.c_str()) == 0;
    std::string said = read_file(words);
    if (refusal && !done && said.find("is refused") != std::string::npos) return *refusal = said, nullptr;
    CAPTURE(said);
    REQUIRE(done);
    return std::make_shared<Bundle>(bundle);
}

struct Trained {
    std::vector<double> losses;
    std::vector<std::vector<float>> weights;
};

/// One for each worker: of a CPU with a thread each, two where there is one.
inline std::vector<std::unique_ptr<Device>> devices_of(int workers, const std::string &on) {
    std::vector<std::unique_ptr<Device>> list;
    for (int w = 0; w < workers; w++) list.push_back(make_device(on, workers == 1 ? 2 : 1, {}, {.ordinal = w}));
    return list;
}
inline std::vector<Device *> pointers_of(const std::vector<std::unique_ptr<Device>> &devices) {
    std::vector<Device *> list;
    for (auto &d : devices) list.push_back(d.get());
    return list;
}

/// What three steps leave, on tokens from a formula.
inline Trained train_steps(Trainer &t, int accumulate, double clip) {
    t.initialise(7);
    t.set("lr", 1e-2), t.set("clip", clip);
    Trained r;
    Batch batch;
    uint64_t at = 0;
    const size_t n = size_t(t.batch() * t.rows_per_example());
    auto next = [&]() -> const Batch & {
        batch.tokens.resize(n), batch.targets.resize(n);
        for (size_t i = 0; i < n; i++, at++) {
            batch.tokens[i] = int32_t(formula_bits("fuzz", at) % 19);
            batch.targets[i] = int32_t(formula_bits("fuzz", at + 1) % 19);
        }
        return batch;
    };
    for (int s = 0; s < 3; s++) r.losses.push_back(t.step(next, accumulate));
    t.flush();
    for (size_t b = 0; b < t.plan().buffers.size(); b++) {
        const PlanBuffer &w = t.plan().buffers[b];
        if (w.role != Role::parameter) continue;
        r.weights.emplace_back(size_t(w.elements()));
        t.get(int(b), r.weights.back());
    }
    return r;
}
/// With all workers in this process.
inline Trained train_bundle(std::shared_ptr<Bundle> bundle, int accumulate = 1, double clip = 0,
                            const std::string &on = "cpu") {
    const auto devices = devices_of(bundle->plan.workers, on);
    Trainer t(std::move(bundle), pointers_of(devices), known_processes());
    return train_steps(t, accumulate, clip);
}

/// A GPT of these arguments.
inline std::shared_ptr<Bundle> compile_gpt(const json &args, std::string flags, const fs::path &bundle) {
    for (const char *name : {"layers", "heads", "width", "context", "vocab"})
        flags += fmt::format(" --param {}={}", name, args[name].get<int>());
    const int workers = args.value("workers", 1);
    flags += fmt::format(" --param batch={} --workers {}", args["batch"].get<int>() / workers, workers);
    if (args.value("clip", 0.0) > 0) flags += " --clip";
    if (args.value("accumulate", 1) > 1) flags += " --accumulate";
    return compile_program("generators/gpt", flags, bundle);
}

class TrainingCase {
public:
    /// On two threads, or "workers" of one thread each.
    TrainingCase(const json &args, const std::string &flags, const std::string &on = "cpu")
        : args(args), bundle(compile_gpt(args, flags + " --device " + on, folder / "bundle")),
          devices(devices_of(args.value("workers", 1), on)), trainer(bundle, pointers_of(devices), processes()) {
        fill_weights();
        for (auto [flag, name] : {std::pair{"lr", "lr"},
                                  {"decay", "weight-decay"},
                                  {"beta1", "beta1"},
                                  {"beta2", "beta2"},
                                  {"clip", "clip"}})
            if (args.contains(flag)) REQUIRE(trainer.set(name, args[flag].get<double>()));
    }

    double step() {
        return trainer.step([&]() -> const Batch & { return batch(position++); }, args.value("accumulate", 1));
    }
    /// As a step that was not taken.
    void skip() {
        position += args.value("accumulate", 1);
        trainer.set_steps(trainer.steps() + 1);
    }
    /// Micro-batch j: tokens j*B*T ... (j+1)*B*T.
    const Batch &batch(uint64_t j) {
        uint64_t n = args["batch"].get<uint64_t>() * args["context"].get<uint64_t>(), vocab = args["vocab"];
        current.tokens.resize(n), current.targets.resize(n);
        for (uint64_t i = 0; i < n; i++) {
            current.tokens[i] = int32_t(formula_bits("tokens", j * n + i) % vocab);
            current.targets[i] = int32_t(formula_bits("tokens", j * n + i + 1) % vocab);
        }
        return current;
    }
    /// Row-major values of a buffer with this role and name.
    std::vector<float> values(Role role, const std::string &name) {
        trainer.flush();
        std::vector<float> row_major(size_t(buffer(role, name).elements()));
        trainer.get(trainer.plan().find(role, name), row_major);
        return row_major;
    }
    void set_values(const std::string &name, const std::vector<float> &row_major) {
        buffer(Role::parameter, name);
        trainer.put(trainer.plan().find(Role::parameter, name), row_major);
    }
    std::vector<std::string> parameters() const {
        std::vector<std::string> names;
        for (const PlanBuffer &b : trainer.plan().buffers)
            if (b.role == Role::parameter) names.push_back(b.name);
        return names;
    }

private:
    Scratch folder;
    json args;
    std::shared_ptr<Bundle> bundle;  ///< opened before its device is made
    std::vector<std::unique_ptr<Device>> devices;

public:
    Trainer trainer;

private:
    Batch current;
    uint64_t position = 0;

    const PlanBuffer &buffer(Role role, const std::string &name) const {
        int b = trainer.plan().find(role, name);
        CAPTURE(name);
        REQUIRE(b >= 0);
        return trainer.plan().buffers[size_t(b)];
    }
    void fill_weights() {
        for (const std::string &name : parameters()) {
            std::vector<float> w(size_t(buffer(Role::parameter, name).elements()));
            for (size_t i = 0; i < w.size(); i++) w[i] = formula_weight(name, i);
            set_values(name, w);
        }
    }
};

}  // namespace cryolite::test
