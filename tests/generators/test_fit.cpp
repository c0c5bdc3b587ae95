// How a step fits into memory: as it is, with updates beside their gradients, with values rematerialised, or not.
#include "generators/driver/memory/fit.h"

#include "generators/passes/placement/memory.h"
#include "schedules/models/gpt.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

/// A model whose gradients and activations are both worth something.
class Steps {
public:
    explicit Steps(StepOptions options, const char *batch = "8")
        : machine(Machine::of(test_target())), step(machine), options(options) {
        Arguments::current() = {{{"layers", "3"}, {"heads", "4"}, {"width", "64"}, {"context", "64"}, {"batch", batch}},
                                {}};
        model = std::make_unique<Gpt>();
        schedule_gpt(*model, step);
    }
    json fit(int64_t bytes, bool update = true, bool recompute = true, int64_t budget = 0) {
        const MemoryRoom room{bytes, 8, replicas, update, recompute};
        return fit_step(room, options, budget, lower_with());
    }
    StepProgram lowered(const json &way) {
        StepOptions o = options;
        o.update = way["update"], o.head_rows = way["head_rows"];
        return lower_within(way["budget"], o, lower_with());
    }
    static int64_t bytes_of(const json &answer) {
        int64_t all = 8 * answer["largest"].get<int64_t>();
        for (auto &[role, bytes] : answer["roles"].items()) all += bytes.get<int64_t>();
        return all;
    }
    int replicas = 1;

private:
    Machine machine;
    Step step;
    AdamW rule;
    std::unique_ptr<Gpt> model;
    const StepOptions options;
    KnownLayers known;

    Lower lower_with() {
        return [this](const StepOptions &o) {
            return lower({.model = *model,
                          .optimizer = rule,
                          .schedule = step,
                          .options = o,
                          .oracle = reads_by_building(machine, 2, 60),
                          .known = &known});
        };
    }
};

}  // namespace

TEST_CASE("fit: a step that fits stays what it is; else updates move, then values are rematerialised") {
    Steps steps({.update = "separate"}, "1");
    const json whole = steps.fit(int64_t{1} << 40);
    const int64_t all = Steps::bytes_of(whole);
    CHECK(whole["fits"] == true);
    CHECK(whole["way"].is_null());
    CHECK(whole["roles"]["activation"] > 600'000);  // the gradients of 150,000 parameters among them
    CHECK(steps.fit(all)["fits"] == true);

    const json fused = steps.fit(all - 1);
    CHECK(fused["fits"] == false);
    CHECK(fused["way"]["update"] == "backward");
    CHECK(fused["way"]["budget"] == 0);
    const int64_t least_fused = fused["way"]["bytes"];
    CHECK(least_fused < all - 20'000);
    CHECK(steps.fit(least_fused)["way"] == fused["way"]);

    const json again = steps.fit(least_fused - 200'000);
    REQUIRE(again["way"].is_object());
    CHECK(again["way"]["update"] == "backward");
    CHECK(again["way"]["bytes"] <= least_fused - 200'000);
    CHECK(again["way"]["budget"] > 0);
    CHECK(again["way"]["head_rows"] == 0);  // whole, as without a budget
    CHECK(step_bytes(steps.lowered(again["way"])) + 8 * whole["largest"].get<int64_t>() == again["way"]["bytes"]);
    // A few bytes more or less of free memory are the same bundle.
    CHECK(steps.fit(least_fused - 201'000)["way"]["budget"] == again["way"]["budget"]);

    const json none = steps.fit(1'000'000);
    CHECK(none["way"].is_null());
    CHECK(none["advice"].is_null());
    CHECK(none["least"] < again["way"]["bytes"]);
    CHECK(none["least"] > 1'000'000);
}

TEST_CASE("fit: what was asked for stays, and what else would do is advice") {
    {
        Steps steps({.update = "separate"}, "1");
        const json kept = steps.fit(Steps::bytes_of(steps.fit(1)) - 1, false, false);
        CHECK(kept["way"].is_null());
        CHECK(kept["advice"]["update"] == "backward");
    }
    Steps steps({.update = "separate"});
    const int64_t all = Steps::bytes_of(steps.fit(1));
    const json again = steps.fit(all - 400'000, false, true);
    CHECK(again["way"]["update"] == "separate");
    CHECK(again["way"]["budget"] > 0);
    const json budget = steps.fit(all - 400'000, true, true, int64_t{1} << 40);  // --recompute BYTES
    CHECK((budget["way"].is_null() || budget["way"]["budget"] == int64_t{1} << 40));
}

TEST_CASE("fit: workers of one process, and one of several processes") {
    Steps steps({.update = "auto", .workers = 2});
    steps.replicas = 2;
    const json both = steps.fit(int64_t{1} << 40);
    steps.replicas = 1;
    const json one = steps.fit(int64_t{1} << 40);
    for (const char *role : {"gradient", "activation", "input"})
        CHECK(both["roles"][role].get<int64_t>() == 2 * one["roles"][role].get<int64_t>());
    CHECK(both["roles"]["state"].get<int64_t>() == 2 * one["roles"]["state"].get<int64_t>());
    CHECK(both["roles"]["parameter"] == one["roles"]["parameter"]);
    const json way = steps.fit(Steps::bytes_of(one) - 400'000)["way"];
    REQUIRE(way.is_object());
    CHECK(way["bytes"] <= Steps::bytes_of(one) - 400'000);
}

TEST_CASE("fit: a budget has steps of a sixteenth") {
    CHECK(round_budget(1) == 1);
    CHECK(round_budget(31) == 31);
    CHECK(round_budget(33) == 32);
    CHECK(round_budget(1'000'000'000) == 973'078'528);
    for (int64_t n = 17; n < (int64_t{1} << 40); n = n * 5 / 4 + 1) {
        CHECK(round_budget(n) <= n);
        CHECK(round_budget(n) > n - n / 16 - 1);
        CHECK(round_budget(round_budget(n)) == round_budget(n));
    }
}

}  // namespace cryolite::test
