// --deterministic: the same bits, losses and weights, whatever the number of workers.

#include "bundle/plan_json.h"
#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

struct Run {
    std::vector<double> losses;
    std::vector<std::vector<float>> weights;
    double evaluation = 0;
    bool operator==(const Run &) const = default;
};

/// A program with the number of sequences of a part, of which a batch has so many.
struct Case {
    std::string program, flags;
    int parts = 8, accumulate = 1;
    double clip = 0;
    bool cuts_parameters = false;  ///< into shards, which one worker has, or several
};

/// Of a formula, the same in every run.
class Batches {
public:
    explicit Batches(const Trainer &t) : t(t) {}
    const Batch &next() {
        const Plan &plan = t.plan();
        auto elements = [&](const std::string &input) {
            return uint64_t(plan.buffers[size_t(plan.find(Role::input, input))].elements() * plan.batch_parts());
        };
        const uint64_t inputs = elements(plan.task), targets = elements("targets"), classes = uint64_t(t.classes());
        batch = {};
        for (uint64_t i = 0; i < inputs; i++)
            if (plan.task == "tokens")
                batch.tokens.push_back(int32_t(formula_bits("inputs", at + i) % classes));
            else
                batch.features.push_back(10 * formula_weight("inputs", at + i));
        for (uint64_t i = 0; i < targets; i++)
            batch.targets.push_back(int32_t(formula_bits("targets", at + i) % classes));
        at += inputs;
        return batch;
    }

private:
    const Trainer &t;
    uint64_t at = 0;
    Batch batch;
};

Run train(const Case &c, int workers, int steps) {
    const Scratch folder;
    const auto bundle =
        compile_program(c.program,
                        fmt::format("{} --workers {} --parts {}{}{}", c.flags, workers, c.parts,
                                    c.clip > 0 ? " --clip" : "", c.accumulate > 1 ? " --accumulate" : ""),
                        folder / "bundle");
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Device *> list;
    for (int w = 0; w < workers; w++)
        list.push_back(devices.emplace_back(make_device("cpu", workers == 1 ? 2 : 1)).get());
    Trainer t(bundle, list, processes());
    t.initialise(7);
    t.set("lr", 1e-2), t.set("clip", c.clip);
    Batches batches(t);
    Run r;
    for (int s = 0; s < steps; s++)
        r.losses.push_back(t.step([&]() -> const Batch & { return batches.next(); }, c.accumulate));
    r.evaluation = t.evaluate(batches.next(), t.batch());
    size_t cut = 0;
    for (size_t b = 0; b < t.plan().buffers.size(); b++) {
        const PlanBuffer &w = t.plan().buffers[b];
        if (w.role != Role::parameter) continue;
        r.weights.emplace_back(size_t(w.elements()));
        t.get(int(b), r.weights.back());
        int updates = 0;
        if (const auto step = t.plan().plans.find("step"); step != t.plan().plans.end())
            for (const PlanCall &call : step->second)
                for (const PlanCall::Stage &stage : call.stages) updates += stage.name == "next(" + w.name + ")";
        cut += updates == c.parts;
    }
    CHECK((cut > 0) == c.cuts_parameters);
    return r;
}

/// Over 20 steps; the loss has to move, and other bits to come of another number of workers without it.
void check_same_bits(const Case &c) {
    const Run one = train(c, 1, 20);
    CHECK(one.losses.back() != one.losses.front());
    for (int workers = 2; workers <= c.parts; workers *= 2) {
        CAPTURE(workers);
        const Run many = train(c, workers, 20);
        CHECK(many.losses == one.losses);
        CHECK(many.weights == one.weights);
        CHECK(many.evaluation == one.evaluation);
    }
}

const std::string gpt = "--param layers=1 --param heads=2 --param width=128 --param context=8 --param vocab=37 "
                        "--param batch=1";

}  // namespace

TEST_CASE("deterministic: GPT, clipped, has the same bits with 1, 2, 4 and 8 workers") {
    check_same_bits({.program = "generators/gpt", .flags = gpt, .clip = 0.3, .cuts_parameters = true});
}

TEST_CASE("deterministic: Llama, with micro-batches and updates at forward") {
    check_same_bits({.program = "generators/llama",
                     .flags = "--param layers=1 --param heads=2 --param kv-heads=1 --param width=32 --param hidden=48 "
                              "--param context=8 --param vocab=37 --param batch=1 --update forward",
                     .accumulate = 2});
}

TEST_CASE("deterministic: rows of a table, parts of several rows, a guarded step in bf16") {
    check_same_bits({.program = "generators/digits", .flags = "--param batch=3", .parts = 4});
    check_same_bits({.program = "generators/digits", .flags = "--param batch=3 --precision bf16", .parts = 2});
}

TEST_CASE("deterministic: dropout is of the element of the batch, not of who has it") {
    check_same_bits({.program = "tests/modes",
                     .flags = "--param kind=2 --param classes=3 --param batch=3",
                     .parts = 4,
                     .accumulate = 2});
}

TEST_CASE("deterministic: without it, other numbers of workers have other bits, which the checks above would see") {
    const Case c{.program = "generators/gpt", .flags = gpt, .cuts_parameters = true};
    const Run one = train(c, 1, 2);
    Case fewer_parts = c;
    fewer_parts.parts = 4;
    fewer_parts.flags = std::string(gpt).replace(gpt.size() - 1, 1, "2");
    const Run other = train(fewer_parts, 1, 2);
    CHECK(other.losses.front() == doctest::Approx(one.losses.front()).epsilon(1e-6));
    CHECK(other.weights != one.weights);
}

TEST_CASE("deterministic: a plan whose parts and workers do not fit is refused") {
    const Scratch folder;
    const auto bundle = compile_program("generators/digits", "--param batch=3 --parts 4", folder / "bundle");
    const json plan = json::parse(read_file(folder / "bundle" / "plan.json"));
    auto refused = [&](const std::function<void(json &)> &change, const std::string &words) {
        json other = plan;
        change(other);
        CHECK_ERROR(read_plan(other.dump(), "plan.json"), words);
    };
    refused([](json &p) { p["parts"] = 3; }, "it is for 3 parts of a batch");
    refused([](json &p) { p["parts"] = -4; }, "it is for -4 parts of a batch");
    refused([](json &p) { p["parts"] = 8; }, "has no sum of 2^2 parts");
    refused(
        [](json &p) {
            for (json &b : p["buffers"])
                if (b["role"] == "partial") b["type"] = "float64", b["bytes"] = 2 * b["bytes"].get<int>();
        },
        "is no sum of gradients of parameter");
}

}  // namespace cryolite::test
