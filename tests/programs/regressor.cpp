// Predicts numbers from the rows of a table, such as a price from what is known of a house.
//   ./cryolite train regressor.cpp --data table.csv --columns 3

#include "generators/cryolite.h"

using namespace cryolite;

struct Numbers : Regressor {
    GeneratorParam<int> columns{"columns", 3, "numbers in a row, before the targets"};
    GeneratorParam<int> width{"width", 48, "channels of the hidden layers"};

    Linear first{"first", columns, width, he(columns)}, second{"second", width, width, he(width)};
    Linear last{"last", width, outputs, normal(0.02)};
    Gelu gelu1{"gelu1"}, gelu2{"gelu2"};

    Shape features() const override { return {columns}; }
    Tensor forward(Tensor x) override { return last(gelu2(second(gelu1(first(x))))); }
};

int main(int argc, char **argv) {
    ProgramInfo info{.name = "numbers"};
    info.presets = {{"numbers", {{"batch", "32"}, {"steps", "600"}, {"lr", "0.005"}, {"warmup", "20"}}}};
    return program<Numbers>(argc, argv, info);
}
