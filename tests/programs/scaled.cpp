// A regression whose targets a test makes as large as it likes, so that adjoints overflow where it wants, and a rule of
// its own.

#include "generators/cryolite.h"

using namespace cryolite;

/// m = beta1 m + sign(g) |g|^(1/2),  w = w - lr m: of no rule that there is.
struct RootMomentum : Optimizer {
    State m{this, "root"};
    Scalar lr{this, "lr", 1e-3}, beta1{this, "beta1", 0.5};

    std::string name() const override { return "root"; }
    Expr operator()(Expr w, Expr g) override {
        m = beta1 * m + select(g < 0, -1.0f, 1.0f) * sqrt(abs(g));
        return w - lr * m;
    }
};

/// y = last(relu(first(x))), of one number unless --outputs says more.
struct Scaled : Regressor {
    GeneratorParam<int> columns{"columns", 8, "numbers in a row, before the targets"};
    GeneratorParam<int> width{"width", 32, "channels of the hidden layer"};

    Linear first{"first", columns, width, he(columns)}, last{"last", width, outputs, normal(0.02)};
    Relu relu{"relu"};

    Shape features() const override { return {columns}; }
    Tensor forward(Tensor x) override { return last(relu(first(x))); }
};

int main(int argc, char **argv) {
    ProgramInfo info{.name = "scaled"};
    info.optimizers = {{"root", rule<RootMomentum>}};
    info.presets = {{"scaled", {{"batch", "8"}, {"steps", "100"}, {"lr", "0.01"}}}};
    return program<Scaled>(argc, argv, info);
}
