// A classifier whose layers do in training what they do not do in evaluation, for tests.

#include "generators/cryolite.h"

using namespace cryolite;

struct Modes : Classifier {
    static constexpr int columns = 13, width = 17;
    GeneratorParam<int> kind{"kind", 1, "1 plain, 2 dropout, 3 batch norm, 4 batch norm twice"};

    Linear first{"first", columns, width}, last{"last", width, classes};
    Relu relu{"relu"};
    Dropout drop{"drop", kind == 2 ? 0.4 : 0};
    std::optional<BatchNorm> norm;

    Modes() {
        if (kind >= 3) norm.emplace("norm", width, BatchNormOptions{.momentum = 0.3});
    }
    Shape features() const override { return {columns}; }
    Tensor forward(Tensor x) override {
        x = first(x);
        for (int k = 3; k <= kind; k++) x = (*norm)(x);
        return last(drop(relu(x)));
    }
};

int main(int argc, char **argv) { return program<Modes>(argc, argv, {"modes"}); }
