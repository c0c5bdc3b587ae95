// A user's program may have types of its own with any name that the compiler has inside,
// beside `using namespace cryolite`.

#include "generators/cryolite.h"

#include <doctest/doctest.h>

using namespace cryolite;

namespace {

enum class Role { reader, writer };
struct Part {
    Role role = Role::reader;
};
struct Kernel : Pointwise {
    using Pointwise::Pointwise;
    Part part;
    Expr value(Expr x) const override { return x * x; }
    Expr slope(Expr x) const override { return 2 * x; }
};
struct Buffer {
    std::vector<Part> parts{Part{}, Part{Role::writer}};
};
struct Product : Layer2 {
    using Layer2::Layer2;
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array x, Array y) override {
        Var i("i"), r("r");
        Func z("z");
        z(i, r) = x(i, r) * y(i, r);
        return z;
    }
};
struct StepProgram {
    Buffer buffer;
    int phases = 0;
};
struct StageSpec {
    StepProgram program;
};
struct Phase {
    StageSpec stage;
};
int stage_reads(const Phase &p) { return int(p.stage.program.buffer.parts.size()); }
int digest(const Phase &p) { return 7 * stage_reads(p); }

struct Squares : Classifier {
    Linear head{"head", 4, classes};
    Kernel kernel{"kernel"};
    Product product{"product"};
    Shape features() const override { return {4}; }
    Tensor forward(Tensor x) override { return product(kernel(head(x)), head(x)); }
};

}  // namespace

TEST_CASE("types of a program with names that the compiler has inside") {
    Squares net;
    Graph g;
    CHECK(net.forward(net.input(g)).shape() == Shape{10, 32});
    CHECK(net.kernel.kind() == "Kernel");
    CHECK(net.product.kind() == "Product");
    CHECK(digest(Phase{}) == 14);
}
