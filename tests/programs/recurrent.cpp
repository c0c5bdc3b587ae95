// A language model without attention and without a schedule: blocks of a gated linear recurrence and a gated unit.
//   ./cryolite train recurrent.cpp --data my.txt --layers 4 --width 128

#include "generators/cryolite.h"

using namespace cryolite;

struct RecurrentBlock {
    RMSNorm norm1, norm2;
    Linear keep, come, open, project, gate, up, down;
    Sigmoid sigmoid;
    SiLU silu;
    LinearRecurrence scan;
    SwiGLU act;

    RecurrentBlock(const std::string &path, int width)
        : norm1(path + ".norm1", width), norm2(path + ".norm2", width), keep(path + ".keep", width, width),
          come(path + ".come", width, width), open(path + ".open", width, width),
          project(path + ".project", width, width), gate(path + ".gate", width, 2 * width),
          up(path + ".up", width, 2 * width), down(path + ".down", 2 * width, width), sigmoid(path + ".sigmoid"),
          silu(path + ".silu"), scan(path + ".scan"), act(path + ".act") {}

    Tensor operator()(Tensor x) {
        Tensor n = norm1(x), a = sigmoid(keep(n));
        x = x + project(scan(a, (1 - a) * come(n)) * silu(open(n)));
        n = norm2(x);
        return x + down(act(gate(n), up(n)));
    }
};

struct Recurrent : TextModel {
    GeneratorParam<int> layers{"layers", 4, "blocks"};
    GeneratorParam<int> width{"width", 128, "channels of the residual stream"};

    Embedding token{"token", vocab, width};
    std::deque<RecurrentBlock> blocks;
    RMSNorm norm{"norm", width};

    Recurrent() {
        for (int i = 0; i < layers; i++) blocks.emplace_back("block." + std::to_string(i), width);
    }
    Tensor forward(Tensor tokens) override {
        Tensor x = token(tokens);
        for (RecurrentBlock &block : blocks) x = block(x);
        return token.transposed(norm(x));
    }
};

void schedule(Recurrent &, Step &) {}

int main(int argc, char **argv) {
    return program<Recurrent, schedule>(argc, argv, {.name = "recurrent", .peer = "torch_recurrent.py"});
}
