// Layers of one type (types=1) or of two that differ in a data member, whose gradients do not read the same; again=2
// builds a value again that one of them reads. Neither changes a bit.

#include "tests/support/curves.h"

using namespace cryolite;

namespace {

struct OtherCurve : test::Curve {
    using Curve::Curve;
};

struct Curves : TextModel {
    GeneratorParam<int> types{"types", 1, "of the two curves"};
    GeneratorParam<int> again{"again", 1, "2: the first product is rematerialised"};
    Embedding token{"token", vocab, 48, normal(0.5)};
    Linear a{"a", 48, 48, he(48)}, b{"b", 48, 48, he(48)}, head{"head", 48, vocab};
    test::Curve straight{"straight", false}, bent{"bent", true};
    OtherCurve other{"bent", true};
    Tensor forward(Tensor t) override {
        Tensor x = a(token(t));
        return head(straight(b(types == 2 ? other(x) : bent(x))));
    }
};

void schedule(Curves &net, Step &s) {
    if (net.again == 2) s(net.a).store_at(forward);
}

}  // namespace

int main(int argc, char **argv) { return program<Curves, schedule>(argc, argv, {"curves"}); }
