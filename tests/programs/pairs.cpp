// What a compiler need not compute: kind=1 writes it, kind=2 is the same by hand without it.

#include "generators/cryolite.h"

using namespace cryolite;

struct Pairs : Classifier {
    static constexpr int columns = 13, width = 17;
    GeneratorParam<int> kind{"kind", 1, "1 with equal calls and what does nothing, 2 without"};

    Linear up{"up", columns, width}, head{"head", width, classes};
    Relu relu{"relu"};

    Shape features() const override { return {columns}; }
    Tensor forward(Tensor x) override {
        std::vector<float> numbers(width, 3), twice(width, 6);
        if (kind == 2) {
            const Tensor h = relu(up(x));
            return head(0.25 * (h + h * h) * x.graph().constant("gains", {width}, twice));
        }
        const Tensor a = relu(up(x)), b = relu(up(x)), c = relu(up(x));
        Tensor h = 0.5 * (0.5 * (a + b * c));
        h = transpose(transpose(slice(h, 0, 0, width)));
        h = 1.0 * reshape(reshape(h, {int(h.shape().size())}), h.shape());
        return head(h * (2.0 * x.graph().constant("numbers", {width}, numbers)));
    }
};

int main(int argc, char **argv) { return program<Pairs>(argc, argv, {"pairs"}); }
