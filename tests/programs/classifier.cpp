// A classifier of rows of numbers with a layer of its own, unlike any model of text.
//   ./cryolite train classifier.cpp --data table.csv

#include "generators/cryolite.h"

using namespace cryolite;

/// y = sin(frequency x + phase), one frequency and phase for each channel: SIREN, Sitzmann et al., 2020.
struct Sine : Layer {
    const int width;
    Parameter frequency, phase;

    Sine(const std::string &path, int width)
        : Layer(path), width(width), frequency{this, "frequency", {width}, ones}, phase{this, "phase", {width}, zeros} {
    }

    Func forward(Array x) override {
        Var i("i"), r("r");
        Func y("y");
        y(i, r) = sin(frequency(i) * x(i, r) + phase(i));
        return y;
    }
};

struct Rows : Classifier {
    GeneratorParam<int> columns{"columns", 64, "numbers in a row"};
    GeneratorParam<int> width{"width", 48, "channels of the hidden layer"};

    Linear first{"first", columns, width, he(columns)}, last{"last", width, classes, he(width)};
    Sine sine{"sine", width};

    Shape features() const override { return {columns}; }
    Tensor forward(Tensor x) override { return last(sine(first(x))); }
};

/// w = w - lr sign(g).
struct SignSgd : Optimizer {
    Scalar lr{this, "lr", 1e-2};
    std::string name() const override { return "sign-sgd"; }
    Expr operator()(Expr w, Expr g) override { return w - lr * select(g > 0, 1.0f, g < 0, -1.0f, 0.0f); }
};

int main(int argc, char **argv) {
    ProgramInfo info{.name = "rows", .optimizer = "sgd"};
    info.optimizers = {{"sign-sgd", rule<SignSgd>}};
    info.presets = {{"rows", {{"batch", "16"}, {"steps", "400"}, {"lr", "0.05"}, {"clip", "0"}}}};
    return program<Rows>(argc, argv, info);
}
