// Every kernel of a gated recurrent network, on ragged shapes, with its loop schedule and without.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/recurrence.h"
#include "tests/support/kernels.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// [3, 13, batch]: sequences of 13 places.
struct Recurrent : Classifier {
    GeneratorParam<int> width{"width", 37};
    Linear gate{"gate", 3, width}, in{"in", 3, width}, again{"again", width, width};
    Sigmoid stays{"stays"}, stays_again{"stays_again"};
    LinearRecurrence first{"first"}, second{"second"};
    MeanPool mean{"mean", 3};
    Linear head{"head", width, classes};

    Shape features() const override { return {3, 13}; }
    Tensor forward(Tensor x) override {
        const Tensor h = first(stays(gate(x)), in(x));
        return head(mean(second(stays_again(again(h)), h)));
    }
};

}  // namespace

TEST_CASE("schedules: gated recurrences") { check_kernels(Compiled<Recurrent>({{"batch", "3"}, {"width", "37"}})); }
TEST_CASE("schedules: tiled loops of gated recurrences" * slow()) {
    check_tiled(Compiled<Recurrent>({{"batch", "3"}, {"width", "37"}}));
}
TEST_CASE("schedules: gated recurrences, narrow and wide" * slow()) {
    for (const char *width : {"7", "150"}) check_kernels(Compiled<Recurrent>({{"batch", "3"}, {"width", width}}));
}

}  // namespace cryolite::test
