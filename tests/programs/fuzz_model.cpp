// A random small model with a random step schedule, both drawn from --param seed=N; plain=2 leaves out the schedule.
// Lines are drawn whether they are legal or not.

#include <deque>
#include <random>

#include "generators/cryolite.h"

using namespace cryolite;

namespace {

struct Piece {
    LayerNorm norm;
    Linear up;
    Gelu gelu;
    Relu relu;
    Linear down;
    CausalAttention attention;
    const bool attends, smooth;

    Piece(const std::string &path, int width, int inner, bool attends, bool smooth)
        : norm(path + ".norm", width), up(path + ".up", width, attends ? 3 * width : inner), gelu(path + ".gelu"),
          relu(path + ".relu"), down(path + ".down", attends ? width : inner, width), attention(path + ".attention", 2),
          attends(attends), smooth(smooth) {}
    Tensor operator()(Tensor x) {
        Tensor h = up(norm(x));
        return x + down(attends ? attention(h) : smooth ? gelu(h) : relu(h));
    }
    Layer &middle() { return attends ? static_cast<Layer &>(attention) : smooth ? static_cast<Layer &>(gelu) : relu; }
};

struct Random : TextModel {
    GeneratorParam<int> seed{"seed", 1, "of the model and its schedule"};
    GeneratorParam<int> plain{"plain", 1, "2: no schedule"};
    std::mt19937 rng{unsigned(int(seed))};
    const int width = std::array{6, 10, 16}[draw(3)], inner = std::array{7, 16, 20}[draw(3)];
    const bool tied = draw(2);
    Embedding token{"token", vocab, width};
    std::deque<Piece> pieces;
    LayerNorm norm{"norm", width};
    std::optional<Linear> head;

    Random() {
        const int n = 1 + draw(2);
        for (int i = 0; i < n; i++) {
            bool attends = draw(2), smooth = draw(2);
            pieces.emplace_back(fmt::format("p{}", i), width, inner, attends, smooth);
        }
        if (!tied) head.emplace("head", width, vocab);
    }
    Layer &output() { return tied ? static_cast<Layer &>(tied_head) : *head; }
    int draw(int n) { return int(rng() % unsigned(n)); }
    TiedHead tied_head{token};
    Tensor forward(Tensor x) override {
        Tensor h = token(x);
        for (Piece &p : pieces) h = p(h);
        h = norm(h);
        return output()(h);
    }
};

void place(Random &m, Step &s, Parameter &w) {
    switch (m.draw(4)) {
    case 0:
        return s(next(w)).compute_root();
    case 1:
        return s(d(w)).compute_at(next(w));
    case 2:
        return s(next(w)).compute_at(forward);
    default:
        return;
    }
}

void schedule(Random &m, Step &s) {
    if (m.plain == 2) return;
    for (Piece &p : m.pieces) {
        Layer &middle = p.middle();
        if (m.draw(2)) s(p.norm).compute_at(p.up);
        if (!p.attends && m.draw(2)) s(middle).compute_with(p.up);
        if (!p.attends && m.draw(2)) s(d(middle)).compute_at(d(p.up));
        for (Layer *l : {static_cast<Layer *>(&p.norm), static_cast<Layer *>(&p.up), &middle})
            if (m.draw(3) == 0) s(*l).store_at(forward);
        for (Parameter *w : {&p.up.W, &*p.up.b, &p.down.W}) place(m, s, *w);
        if (m.draw(3) == 0) s.layout(p.up.W, m.draw(2) ? row_major() : panels(16, 0));
    }
    place(m, s, m.token.table);
    if (m.head) place(m, s, m.head->W);
    if (m.draw(3) == 0) s(m.output()).compute_at(m.criterion, 32);
}

}  // namespace

int main(int argc, char **argv) { return program<Random, schedule>(argc, argv, {"fuzz"}); }
