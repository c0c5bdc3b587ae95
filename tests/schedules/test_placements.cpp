// Kernels that a step schedule has joined compute what their stages compute apart.

#include "dsl/layers/layer_norm.h"
#include "dsl/models/digits.h"
#include "tests/support/kernels.h"

namespace cryolite::test {

namespace {

struct Chain : Classifier {
    Relu relu{"relu"}, after{"after"};
    Linear up{"up", 13, 37}, down{"down", 37, 13}, head{"head", 13, classes};
    LayerNorm norm{"norm", 37};

    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override { return head(after(down(norm(relu(up(x)))))); }
};

}  // namespace

TEST_CASE("placements: epilogues, prologues and updates, one at a time") {
    using Lines = Compiled<Chain>::Schedule;
    const Lines lines[] = {
        {},
        [](Chain &c, Step &s) { s(c.relu).compute_with(c.up); },
        [](Chain &c, Step &s) { s(c.relu).compute_at(c.norm); },
        [](Chain &c, Step &s) { s(c.norm).compute_at(c.down); },
        [](Chain &c, Step &s) { s(d(c.relu)).compute_at(d(c.up)); },
        [](Chain &c, Step &s) { s(d(c.after)).compute_at(d(c.down)); },
        [](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)); },
        [](Chain &c, Step &s) { s(d(c.up.b)).compute_at(next(c.up.b)); },
    };
    for (const Lines &line : lines) {
        std::string name = "nothing placed";
        Compiled<Chain> c({{"batch", "11"}}, line);
        for (auto &[stage, where] : c.step.placements) name = stage.str() + where.line();
        CAPTURE(name);
        check_kernels(c);
    }
}

TEST_CASE("placements: convolutions") {
    check_kernels(Compiled<Digits>({{"batch", "5"}, {"channels", "5"}}));
}

}  // namespace cryolite::test
