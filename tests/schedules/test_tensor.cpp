// Every kernel of a model of functions on tensors, with its loop schedule and without.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "dsl/tensor.h"
#include "tests/support/kernels.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// Features [5, 6, batch] go two ways: mixed along the second dimension, and weighed by themselves.
struct Mixed : Classifier {
    Linear along{"along", 6, 4}, gate{"gate", 5, 5}, head{"head", 9, classes};
    Relu relu{"relu"};

    Shape features() const override { return {5, 6}; }
    Tensor forward(Tensor x) override {
        const Tensor mixed = transpose(along(transpose(x)));                                      // [5, 4, batch]
        const Tensor gated = 2 * gate(slice(x, 1, 1, 5)) * mixed + 1;                             // [5, 4, batch]
        const Tensor both = concat({gated, relu(mixed - gated)}, 1);                              // [5, 8, batch]
        const Tensor share = both / (reshape(sum(both * both, 0), {1, 8, both.shape()[2]}) + 1);  // of its column
        const Tensor pooled = mean(share, 1) / (sum(gated * gated, 1) + 1);
        const Tensor rest = mean(reshape(mixed, {4, 5, mixed.shape()[2]}), 1);
        return head(concat({pooled, stop_gradient(rest) * rest}, 0));
    }
};

using Values = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("schedules: functions on tensors") { check_kernels(Compiled<Mixed>(Values{{"batch", "19"}})); }
TEST_CASE("schedules: tiled loops of functions on tensors") { check_tiled(Compiled<Mixed>(Values{{"batch", "19"}})); }
TEST_CASE("schedules: functions on tensors, few rows" * slow()) {
    check_kernels(Compiled<Mixed>(Values{{"batch", "3"}}));
}

}  // namespace cryolite::test
