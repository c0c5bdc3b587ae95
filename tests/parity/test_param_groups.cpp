// Parameters at rates and decays of their own, against AdamW with PyTorch's groups, in doubles: the model is linear,
// and its
// gradients are written out here.

#include "tests/parity/losses_case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// As torch.optim.AdamW with a group for each parameter.
struct Reference {
    struct Group {
        double lr, decay;
    };
    std::map<std::string, Group> groups;
    std::map<std::string, std::vector<double>> w, m, v;
    int steps = 0;

    Reference(const LossesCase &c, std::map<std::string, Group> of) : groups(std::move(of)) {
        for (auto &[name, x] : c.weights) {
            w[name].assign(x.begin(), x.end());
            m[name].resize(x.size()), v[name].resize(x.size());
        }
    }
    void step(const LossesCase &c) {
        const auto g = gradients(c);
        steps++;
        for (auto &[name, x] : w)
            for (size_t i = 0; i < x.size(); i++) {
                double &first = m[name][i], &second = v[name][i];
                const double d = g.at(name)[i];
                const auto [lr, decay] = groups.at(name);
                x[i] -= lr * decay * x[i];
                first = 0.9 * first + 0.1 * d, second = 0.95 * second + 0.05 * d * d;
                x[i] -= lr * (first / (1 - std::pow(0.9, steps))) /
                        (std::sqrt(second / (1 - std::pow(0.95, steps))) + 1e-8);
            }
    }
    /// Of the mean cross-entropy of head(token(ids)).
    std::map<std::string, std::vector<double>> gradients(const LossesCase &c) const {
        const auto &W = w.at("head.weight"), &b = w.at("head.bias"), &table = w.at("token.weight");
        std::map<std::string, std::vector<double>> g;
        for (auto &[name, x] : w) g[name].resize(x.size());
        const size_t vocab = size_t(c.vocab), rows = c.data.targets.size();
        for (size_t r = 0; r < rows; r++) {
            const size_t token = size_t(c.data.tokens[r]) * width;
            std::vector<double> y(b);
            double sum = 0;
            for (size_t i = 0; i < width; i++)
                for (size_t o = 0; o < vocab; o++) y[o] += W[i * vocab + o] * table[token + i];
            for (double x : y) sum += std::exp(x);
            for (size_t o = 0; o < vocab; o++) {
                const double d = (std::exp(y[o]) / sum - (int(o) == c.data.targets[r])) / double(rows);
                g["head.bias"][o] += d;
                for (size_t i = 0; i < width; i++) {
                    g["head.weight"][i * vocab + o] += d * table[token + i];
                    g["token.weight"][token + i] += d * W[i * vocab + o];
                }
            }
        }
        return g;
    }
};

/// How far the weights are from the reference's, beside how far they went.
void compare(LossesCase &c, const Reference &reference) {
    c.trainer.flush();
    for (auto &[name, before] : c.weights) {
        CAPTURE(name);
        std::vector<float> now(before.size());
        c.trainer.get(c.trainer.plan().find(Role::parameter, name), now);
        double far = 0, went = 0;
        for (size_t i = 0; i < now.size(); i++) {
            far = std::max(far, std::abs(double(now[i]) - reference.w.at(name)[i]));
            went = std::max(went, std::abs(double(now[i]) - before[i]));
        }
        CHECK(went > 1e-4);
        CHECK(far < 2e-3 * went);
    }
}

constexpr double lr = 4e-3, decay = 0.2;
const std::string groups =
    "--param-group 'token=lr:0.25x,decay:0' --param-group 'head.*=lr:0.5x,decay:2x' --param-group '*.bias=lr:1e-3' ";

}  // namespace

TEST_CASE("groups of parameters: ten steps are those of PyTorch's AdamW with groups, wherever the updates are placed" *
          slow()) {
    for (const std::string &way :
         std::vector<std::string>{"--update backward", "--update forward", "--accumulate", "--clip"}) {
        CAPTURE(way);
        LossesCase c(1, groups + way);
        c.trainer.set("lr", lr), c.trainer.set("weight-decay", decay), c.trainer.set("clip", 1e9);
        REQUIRE(c.trainer.plan().groups.size() == 3);
        Reference reference(
            c, {{"token.weight", {0.25 * lr, 0}}, {"head.weight", {0.5 * lr, 2 * decay}}, {"head.bias", {1e-3, 0}}});
        for (int s = 0; s < 10; s++) {
            c.trainer.step([&]() -> const Batch & { return c.data; },
                           way == "--accumulate" ? 2 : 1);  // the mean of equal ones
            reference.step(c);
        }
        compare(c, reference);
    }
}

TEST_CASE("groups of parameters: where the rate goes up and down, those that have their own get the same share of it") {
    LossesCase c(1, groups);
    c.trainer.set("weight-decay", decay);
    Reference reference(c, {});
    for (int s = 0; s < 5; s++) {
        const double share = (s + 1) / 5.0;
        c.trainer.set("lr", lr * share, share);
        reference.groups = {{"token.weight", {0.25 * lr * share, 0}},
                            {"head.weight", {0.5 * lr * share, 2 * decay}},
                            {"head.bias", {1e-3 * share, 0}}};
        c.trainer.step([&]() -> const Batch & { return c.data; }, 1);
        reference.step(c);
    }
    compare(c, reference);
}

TEST_CASE("groups of parameters: two workers update what one does") {
    LossesCase one(1, groups), two(1, groups, batch, 2);
    for (LossesCase *c : {&one, &two}) {
        c->trainer.set("lr", lr);
        c->trainer.step([&]() -> const Batch & { return c->data; }, 1);
    }
    for (auto &[name, before] : one.weights) {
        CAPTURE(name);
        std::vector<float> a(before.size()), b(before.size());
        one.trainer.get(one.trainer.plan().find(Role::parameter, name), a),
            two.trainer.get(two.trainer.plan().find(Role::parameter, name), b);
        for (size_t i = 0; i < a.size(); i++) CHECK(std::abs(a[i] - b[i]) < 1e-6);
    }
}

}  // namespace cryolite::test
