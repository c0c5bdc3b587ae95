#pragma once
// A classifier of two products, for tests of their loops.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

template <int inputs, int outputs> struct TwoProducts : Classifier {
    Linear up{"up", inputs, outputs}, head{"head", outputs, classes};
    Relu relu{"relu"};
    Shape features() const override { return {inputs}; }
    Tensor forward(Tensor x) override { return head(relu(up(x))); }
};

}  // namespace cryolite::test
