// Tells kinds of flowers apart by their measures: a table whose last column is the kind, as a number.
//   ./cryolite train flowers.cpp --data flowers.csv

#include "generators/cryolite.h"

using namespace cryolite;

struct Flowers : Classifier {
    GeneratorParam<int> columns{"columns", 4, "numbers in a row, before the label"};
    GeneratorParam<int> width{"width", 16, "channels of the hidden layer"};

    Linear first{"first", columns, width, he(columns)}, last{"last", width, classes, he(width)};
    Relu relu{"relu"};

    Shape features() const override { return {columns}; }
    Tensor forward(Tensor x) override { return last(relu(first(x))); }
};

int main(int argc, char **argv) {
    ProgramInfo info{.name = "flowers"};
    info.presets = {{"flowers", {{"batch", "16"}, {"steps", "300"}, {"lr", "0.01"}, {"warmup", "20"}}}};
    return program<Flowers>(argc, argv, info);
}
