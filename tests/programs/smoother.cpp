// Predicts the next character from a learned average of the last few: no attention, no normalisation, an
// untied head, a layer with a stencil over positions and its gradient written by hand.
//   ./cryolite train smoother.cpp --data my.txt --reach 5

#include "generators/cryolite.h"

using namespace cryolite;

/// y(c, t, s) = sum over j < reach of w(c, j) x(c, t - j, s); positions before the first count as zero.
struct CausalFilter : Layer {
    const int width, reach;
    Parameter w;

    CausalFilter(const std::string &path, int width, int reach)
        : Layer(path), width(width), reach(reach), w{this, "weight", {width, reach}, normal(0.3)} {}

    int rank() const override { return 3; }

    Func forward(Array x) override {
        Func y("y");
        RDom j(0, reach, "j");
        y(c, t, s) += w(c, j) * past(x, t - j);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        int context = x.extent(1);
        RDom j(0, reach, "j"), m(0, context, 0, x.extent(2), "m");
        Expr later = min(t + j, context - 1);
        d(x)(c, t, s) += w(c, j) * select(t + j < context, dy(c, later, s), cast(dy.type(), 0));
        Var k("k");
        Expr before = max(m.x - k, 0);
        d(w)(c, k) += dy(c, m.x, m.y) * select(m.x - k >= 0, x(c, before, m.y), cast(x.type(), 0));
    }

private:
    Var c{"c"}, t{"t"}, s{"s"};
    Expr past(const Array &x, Expr at) const { return select(at >= 0, x(c, max(at, 0), s), cast(x.type(), 0)); }
};

struct Smoother : TextModel {
    GeneratorParam<int> reach{"reach", 8, "characters that are averaged"};
    GeneratorParam<int> width{"width", 48, "channels"};

    Embedding token{"token", vocab, width, normal(0.1)};
    CausalFilter filter{"filter", width, reach};
    Linear hidden{"hidden", width, 2 * width, he(width)}, head{"head", 2 * width, vocab};
    Relu relu{"relu"};

    Tensor forward(Tensor tokens) override { return head(relu(hidden(filter(token(tokens))))); }
};

void schedule(Smoother &net, Step &s) {
    s(net.relu).compute_with(net.hidden);
    s(d(net.hidden.W)).compute_at(next(net.hidden.W));
}

int main(int argc, char **argv) {
    ProgramInfo info{.name = "smoother"};
    info.presets = {{"smoother", {{"steps", "300"}, {"lr", "3e-3"}, {"clip", "0"}}}};
    return program<Smoother, schedule>(argc, argv, info);
}
