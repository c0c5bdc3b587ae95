// Frozen parameters: they keep their bits, and all others are trained as in a run that undoes the update of the frozen
// ones after each step; wherever updates are placed, with accumulation, workers, bf16, clipping,
// a budget and tied weights.

#include <fnmatch.h>

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

using Patterns = std::vector<std::string>;
using Weights = std::map<std::string, std::vector<float>>;

constexpr int steps = 4;
/// The tied table, and all that lies below the second block; and some of the middle, through which others are trained.
const Patterns below{"w?e.weight", "h.0.*"}, within{"h.*.mlp.*", "ln_f.bias"};

json small(const json &more = json::object()) {
    json args = {{"layers", 2}, {"heads", 2}, {"width", 16},  {"context", 8}, {"batch", 4},
                 {"vocab", 19}, {"lr", 1e-2}, {"decay", 0.1}, {"beta1", 0.9}, {"beta2", 0.95}};
    args.update(more);
    return args;
}

bool matches(const Patterns &patterns, const std::string &name) {
    return std::ranges::any_of(patterns,
                               [&](const std::string &p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}

std::string flags_of(const Patterns &patterns) { return fmt::format(" --freeze '{}'", fmt::join(patterns, ",")); }

Weights weights_of(TrainingCase &c) {
    Weights w;
    for (const std::string &name : c.parameters()) w[name] = c.values(Role::parameter, name);
    return w;
}

struct Run {
    std::vector<double> losses;
    Weights start, weights;
};

/// `undone`: parameters that are set to what they were after each step.
Run train(TrainingCase &c, const Patterns &undone = {}) {
    Run r;
    r.start = weights_of(c);
    for (int s = 0; s < steps; s++) {
        r.losses.push_back(c.step());
        for (auto &[name, w] : r.start)
            if (matches(undone, name)) c.set_values(name, w);
    }
    r.weights = weights_of(c);
    return r;
}

double largest_difference(const std::vector<float> &a, const std::vector<float> &b) {
    double d = 0;
    for (size_t i = 0; i < a.size(); i++) d = std::max(d, std::abs(double(a[i]) - b[i]));
    return d;
}

void check_same(const Run &run, const Run &expected, const Patterns &frozen, double tolerance) {
    for (int s = 0; s < steps; s++)
        CHECK(run.losses[size_t(s)] == doctest::Approx(expected.losses[size_t(s)]).epsilon(tolerance));
    for (auto &[name, w] : run.weights) {
        CAPTURE(name);
        if (matches(frozen, name)) {
            CHECK(w == run.start.at(name));
        } else {
            CHECK(largest_difference(w, expected.weights.at(name)) < 30 * tolerance);
            CHECK(largest_difference(w, run.start.at(name)) > 1e-3);
        }
    }
}

}  // namespace

TEST_CASE("freeze: losses and weights are those of a run that undoes the frozen updates" * slow()) {
    // As many workers in both: the gradient of a key's bias is rounding alone, and AdamW makes a step of it.
    struct Variant {
        json args;
        std::string reference;  ///< flags of both
        std::vector<std::string> flags;
        double tolerance = 1e-6;
    };
    const std::vector<Variant> variants = {
        {small(), "", {"--update separate", "--update backward", "--update forward", "--update auto --head-rows 32"}},
        {small({{"accumulate", 2}}), "", {"--update backward", "--update forward"}},
        {small({{"workers", 2}}), "", {"--update auto"}},
        {small(), "--precision bf16 ", {"--update backward"}, 2e-3},
    };
    for (const Patterns &frozen : {below, within})
        for (const Variant &v : variants) {
            TrainingCase whole(v.args, v.reference + "--update separate");
            const Run expected = train(whole, frozen);
            for (const std::string &flags : v.flags) {
                CAPTURE(flags_of(frozen));
                CAPTURE(v.args.dump());
                CAPTURE(flags);
                TrainingCase c(v.args, v.reference + flags + flags_of(frozen));
                check_same(train(c), expected, frozen, v.tolerance);
            }
        }
}

TEST_CASE("freeze: within a budget" * slow()) {
    TrainingCase roomy(small(), "--update backward" + flags_of(below));
    const Run expected = train(roomy);
    int64_t bytes = 0;
    for (auto &[role, n] : roomy.trainer.plan().memory()) bytes += n;
    TrainingCase tight(small(), fmt::format("--update backward --budget {}{}", bytes - 512, flags_of(below)));
    check_same(train(tight), expected, below, 1e-6);
}

TEST_CASE("freeze: the norm that clips is that of trained gradients, before the first update known or not") {
    const json sgd = {{"layers", 2}, {"heads", 2},  {"width", 16}, {"context", 8},
                      {"batch", 4},  {"vocab", 19}, {"lr", 1e-2},  {"beta1", 0.0}};
    TrainingCase whole(sgd, "--optimizer sgd --update separate");
    const Weights start = weights_of(whole);
    whole.step();
    for (const Patterns &frozen : {below, within}) {
        double squares = 0;
        for (const std::string &name : whole.parameters())
            for (float g : matches(frozen, name) ? std::vector<float>() : whole.values(Role::gradient, name))
                squares += double(g) * g;
        const double clip = std::sqrt(squares) / 3;
        json clipped = sgd;
        clipped["clip"] = clip;
        for (const char *update : {"separate", "backward"}) {
            CAPTURE(flags_of(frozen));
            CAPTURE(update);
            TrainingCase c(clipped, fmt::format("--optimizer sgd --update {}{}", update, flags_of(frozen)));
            c.step();
            for (const std::string &name : c.parameters()) {
                std::vector<float> expected = start.at(name);
                if (!matches(frozen, name)) {
                    const std::vector<float> g = whole.values(Role::gradient, name);
                    for (size_t i = 0; i < g.size(); i++)
                        expected[i] -= float(1e-2 * clip / (std::sqrt(squares) + 1e-6) * g[i]);
                }
                CAPTURE(name);
                CHECK(largest_difference(c.values(Role::parameter, name), expected) < 1e-7);
            }
        }
    }
}

TEST_CASE("freeze: no buffer of it but its own, and what is spared is told") {
    TrainingCase all(small(), "--update separate"), some(small(), "--update separate" + flags_of(within));
    const Plan &plan = some.trainer.plan();
    int64_t elements = 0;
    for (const PlanBuffer &b : plan.buffers) {
        if (b.role == Role::parameter) CHECK(b.frozen.empty() == !matches(within, b.name));
        if (!b.frozen.empty()) elements += b.elements();
        if (b.parameter >= 0) CHECK(plan.buffers[size_t(b.parameter)].frozen.empty());
    }
    CHECK(plan.parameters() - plan.trained_parameters() == elements);
    auto bytes = [](const Plan &p, Role role) {  // in the arena or not
        int64_t all = 0;
        for (const PlanBuffer &b : p.buffers) all += b.role == role && b.stored ? b.bytes : 0;
        return all;
    };
    CHECK(plan.spared.state_bytes == bytes(all.trainer.plan(), Role::state) - bytes(plan, Role::state));
    CHECK(plan.spared.gradient_bytes == bytes(all.trainer.plan(), Role::gradient) - bytes(plan, Role::gradient));
    auto flops = [](const Plan &p) {
        double n = 0;
        for (const PlanCall &c : p.plans.at("step")) n += c.flops;
        return n;
    };
    CHECK(plan.spared.flops == doctest::Approx(flops(all.trainer.plan()) - flops(plan)));
}

TEST_CASE("freeze: a checkpoint has every weight, and a run goes on from it with the same bits") {
    Scratch scratch;
    const std::string flags = "--update auto" + flags_of(below);
    TrainingCase one(small(), flags), two(small(), flags);
    for (int s = 0; s < 2; s++) one.step(), two.skip();
    one.trainer.write_parameters(scratch / "weights.safetensors");
    one.trainer.write_state(scratch / "state.safetensors");
    two.trainer.load_parameters(scratch / "weights.safetensors", [](const std::string &name) { return name; });
    two.trainer.read_state(scratch / "state.safetensors");
    for (int s = 0; s < 2; s++) CHECK(one.step() == two.step());
    CHECK(weights_of(one) == weights_of(two));
}

}  // namespace cryolite::test
