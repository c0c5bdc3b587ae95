// Lines of a step schedule that are wrong by themselves: a layer that the model never calls, panels that a parameter
// cannot have.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Spare : Classifier {
    Relu relu{"relu"}, spare{"spare"};
    Linear up{"up", 5, 7}, head{"head", 7, classes};

    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(relu(up(x))); }
};

std::string said(const std::function<void(Spare &, Step &)> &lines) {
    return error_of([&] { Compiled<Spare>({{"batch", "3"}}, lines); });
}

}  // namespace

TEST_CASE("a line names a layer that the model calls") {
    CHECK(said([](Spare &n, Step &s) { s(n.relu).compute_root(); }) == "");
    CHECK(said([](Spare &n, Step &s) { s(n.spare).compute_root(); }) ==
          "s(spare).compute_root() is refused: the model never calls 'spare'; call it, or remove the line");
    CHECK(said([](Spare &n, Step &s) { s(n.relu).compute_with(n.up); }) == "");
    CHECK(said([](Spare &n, Step &s) { s(n.spare).compute_with(n.up); }) ==
          "s(spare).compute_with(up) is refused: the model never calls 'spare'; call it, or remove the line");
    CHECK(said([](Spare &n, Step &s) { s(n.relu).compute_at(n.spare); }) ==
          "s(relu).compute_at(spare) is refused: the model never calls 'spare'; call it, or remove the line");
    CHECK(said([](Spare &n, Step &s) { s(d(n.relu)).compute_at(d(n.up)); }) == "");
    CHECK(said([](Spare &n, Step &s) { s(d(n.spare)).compute_at(d(n.up)); }) ==
          "s(d(spare)).compute_at(d(up)) is refused: the model never calls 'spare'; call it, or remove the line");
    CHECK(said([](Spare &n, Step &s) { s(n.relu).store_at(forward); }) == "");
    CHECK(said([](Spare &n, Step &s) { s(n.spare).store_at(forward); }) ==
          "s(spare).store_at(forward) is refused: the model never calls 'spare'; call it, or remove the line");
    CHECK(said([](Spare &n, Step &s) { s(n.up).dialect(halide); }) == "");
    CHECK(said([](Spare &n, Step &s) { s(n.spare).dialect(halide); }) ==
          "s(spare).dialect(halide) is refused: the model never calls 'spare'; call it, or remove the line");
}

TEST_CASE("panels are of a dimension that the parameter has") {
    for (int dim : {0, 1}) CHECK(said([&](Spare &n, Step &s) { s.layout(n.up.W, panels(16, dim)); }) == "");
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, row_major()); }) == "");
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, panels(16, 3)); }) ==
          "s.layout(up.weight, panels(16, 3)) is refused: the parameter has shape [7, 5], so its "
          "dimensions are 0 to 1; the nearest "
          "legal line is s.layout(up.weight, panels(16, 1))");
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, panels(16, -1)); }) ==
          "s.layout(up.weight, panels(16, -1)) is refused: the parameter has shape [7, 5], so its "
          "dimensions are 0 to 1; the nearest "
          "legal line is s.layout(up.weight, panels(16, 0))");
    CHECK(said([](Spare &n, Step &s) { s.layout(*n.up.b, panels(-16)); }) ==
          "s.layout(up.bias, panels(-16, 0)) is refused: a panel has one element or more; the nearest legal line is "
          "s.layout(up.bias, panels(1, 0))");
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, panels(0, 1)); }) ==
          "panels(0, 1): a panel has one element or more; for rows without panels write row_major()");
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, panels(64, 1)); }) == "");  // padding alone is legal
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, panels(2147483647)); }) ==
          "s.layout(up.weight, panels(2147483647, 0)) is refused: with its padding the parameter has "
          "10737418235 elements, but a kernel's "
          "array has less than 2^31; the nearest legal line is s.layout(up.weight, panels(7, 0))");
    CHECK(said([](Spare &n, Step &s) { s.layout(n.up.W, panels(65536, 1)); }) == "");
    CHECK(
        said([](Spare &n, Step &s) { s.layout(n.up.W, panels(65537, 1)); }) ==
        "s.layout(up.weight, panels(65537, 1)) is refused: a panel has at most 65536 elements; the nearest legal line "
        "is s.layout(up.weight, panels(5, 1))");
}

}  // namespace cryolite::test
