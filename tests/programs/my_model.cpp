// A language model of one's own: with a norm and a gated unit that are written out, and a schedule.
//   ./cryolite train my_model.cpp --data my.txt --layers 2 --width 64

#include "generators/cryolite.h"

using namespace cryolite;

/// y = x / sqrt(mean(x^2) + eps) * g over the innermost dimension.
struct RmsNorm : Layer {
    const int width;
    Parameter g;

    RmsNorm(const std::string &path, int width) : Layer(path), width(width), g{this, "weight", {width}, ones} {}

    Func forward(Array x) override {
        Var i("i"), r("r");
        RDom k(0, width, "k");
        Func square("square"), y("y");
        square(r) += x(k, r) * x(k, r);
        y(i, r) = x(i, r) * g(i) / sqrt(square(r) / width + 1e-5f);
        return y;
    }
};

/// z = x * y * sigmoid(y): the gate of SwiGLU.
struct Gate : Layer2 {
    using Layer2::Layer2;
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array x, Array y) override {
        Var i("i"), r("r");
        Func z("z");
        z(i, r) = x(i, r) * y(i, r) / (1 + exp(-y(i, r)));
        return z;
    }
};

struct MyBlock {
    RmsNorm norm1, norm2;
    Linear qkv, project, up, open, down;
    CausalAttention attention;
    Gate gate;

    MyBlock(const std::string &path, int width, int heads)
        : norm1(path + ".norm1", width), norm2(path + ".norm2", width), qkv(path + ".qkv", width, 3 * width),
          project(path + ".project", width, width), up(path + ".up", width, 2 * width),
          open(path + ".open", width, 2 * width), down(path + ".down", 2 * width, width),
          attention(path + ".attention", heads), gate(path + ".gate") {}

    Tensor operator()(Tensor x) {
        x = x + project(attention(qkv(norm1(x))));
        Tensor n = norm2(x);
        return x + down(gate(up(n), open(n)));
    }
};

struct MyModel : TextModel {
    GeneratorParam<int> layers{"layers", 2, "blocks"};
    GeneratorParam<int> heads{"heads", 4, "attention heads"};
    GeneratorParam<int> width{"width", 64, "channels of the residual stream"};

    Embedding token{"token", vocab, width};
    Positions position{"position", context, width};
    std::deque<MyBlock> blocks;
    RmsNorm norm{"norm", width};

    MyModel() {
        for (int i = 0; i < layers; i++) blocks.emplace_back("block." + std::to_string(i), width, heads);
    }
    Tensor forward(Tensor tokens) override {
        Tensor x = position(token(tokens));
        for (MyBlock &block : blocks) x = block(x);
        return token.transposed(norm(x));
    }
};

/// A task is 16 rows; each row's sum of squares is computed where the row is scaled.
void rms_norm(Group &g, const Machine &m) {
    Var i = g.out.args()[0], r = g.out.args()[1], task("task");
    g.out.split(r, task, r, 16, Halide::TailStrategy::GuardWithIf).parallel(task);
    g.out.vectorize(i, m.vector, Halide::TailStrategy::GuardWithIf);
    Func square = g.func("square");
    square.compute_at(g.out, r).update().atomic().vectorize(square.rvars()[0], m.vector);
}

void schedule(MyModel &net, Step &s) {
    s.loops<RmsNorm>(Form::forward, rms_norm);
    for (MyBlock &b : net.blocks) s(b.gate).compute_with(b.open);
}

int main(int argc, char **argv) { return program<MyModel, schedule>(argc, argv, {"my_model"}); }
