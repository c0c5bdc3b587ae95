#pragma once
// Small models for the legality of a schedule's lines, and what is said of a line.

#include "dsl/layers/activation.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "tests/support/step.h"

namespace cryolite::test {

/// A block with a pointwise layer on each side of its product, and a norm behind one.
struct Chain : Classifier {
    Relu relu{"relu"}, after{"after"};
    Linear up{"up", 5, 7}, down{"down", 7, 5}, head{"head", 5, classes};
    LayerNorm norm{"norm", 7};

    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(after(down(norm(relu(up(x)))))); }
};
struct Direct : Classifier {
    Linear up{"up", 5, 7}, down{"down", 7, classes};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return down(up(x)); }
};
using Lines = std::function<void(Chain &, Step &)>;

inline std::string message_of(const Lines &lines, StepOptions options = {}) {
    return error_of([&] { Compiled<Chain>({{"batch", "3"}}, lines, options); });
}

inline void refused(const Lines &lines, const std::string &message, StepOptions options = {}) {
    std::string found = message_of(lines, options);
    CAPTURE(found);
    CAPTURE(message);
    CHECK(found.find(message) != std::string::npos);
}

inline void accepted(const Lines &lines, StepOptions options = {}) { CHECK(message_of(lines, options) == ""); }

}  // namespace cryolite::test
