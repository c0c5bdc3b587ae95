// Which lines .dialect(...) are legal, and what --dialect means for updates: refusals beside what is accepted.

#include <nlohmann/json.hpp>

#include "dsl/layers/activation.h"
#include "dsl/layers/batch_norm.h"
#include "dsl/layers/conv_transpose.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/pooling.h"
#include "dsl/models/gpt.h"
#include "generators/passes/placement/dialects.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Chain : Classifier {
    Relu relu{"relu"};
    Linear up{"up", 5, 7}, down{"down", 7, 5}, head{"head", 5, classes};
    LayerNorm norm{"norm", 7};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return head(down(norm(relu(up(x))))); }
};
using Lines = std::function<void(Chain &, Step &)>;

std::string message_of(const Lines &lines, StepOptions options = {}, Format format = fp32,
                       const Halide::Target &target = test_target()) {
    return error_of([&] { Compiled<Chain>({{"batch", "3"}}, lines, options, format, target); });
}

/// What derives from a convolution may compute anything.
struct OtherConvolution : Conv2D {
    using Conv2D::Conv2D;
};
struct Images : Classifier {
    Conv2D one{"one", 3, 5, 3, {.stride = 2}}, two{"two", 5, 6, 3, {.dilation = 2, .groups = 1}},
        place{"place", 6, 5, 1};
    OtherConvolution other{"other", 5, 5, 3};
    ConvTranspose2D larger{"larger", 5, 5, 2};
    BatchNorm norm{"norm", 5};
    Relu relu{"relu"};
    MeanPool mean{"mean"};
    Linear head{"head", 5, classes};
    Shape features() const override { return {3, 9, 8}; }
    Tensor forward(Tensor x) override { return head(mean(larger(other(place(two(relu(norm(one(x))))))))); }
};
std::string message_of_images(const std::function<void(Images &, Step &)> &lines, Format format = fp32,
                              const Halide::Target &target = test_target()) {
    return error_of([&] { Compiled<Images>({{"batch", "3"}}, lines, {}, format, target); });
}

/// The dialect of the kernel that has this stage in the step or the forward pass, and why.
template <typename M> std::string dialect_of(const Compiled<M> &c, const std::string &stage) {
    KernelId k = c.kernel("step", stage);
    if (!k) k = c.kernel("forward", stage);
    REQUIRE(k);
    return c.program.kernels[k].dialect + ": " + c.program.kernels[k].dialect_why;
}

std::string update_of(const Compiled<Chain> &c, const std::string &stage) {
    for (const ir::Op &s : c.program.ops)
        if (s.name == stage) return s.placed + (s.why.empty() ? "" : ": " + s.why);
    return "";
}

}  // namespace

TEST_CASE("dialects: a line is for a product") {
    CHECK(message_of([](Chain &c, Step &s) { s(c.relu).dialect(onednn); }) ==
          "s(relu).dialect(onednn) is refused: it is not known to be a matrix product or a convolution, and a dialect "
          "computes only those; the nearest legal line is s(relu).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(d(*c.up.b)).dialect(onednn); }) ==
          "s(d(up.bias)).dialect(onednn) is refused: it is not known to be a matrix product or a convolution, and a "
          "dialect computes only those; the nearest legal line is "
          "s(d(up.bias)).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(next(c.up.W)).dialect(onednn); }) ==
          "s(next(up.weight)).dialect(onednn) is refused: it is not a value, adjoint or gradient that this step "
          "computes; the "
          "nearest legal "
          "line is s(next(up.weight)).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(c.up).dialect({"cublas"}); }) ==
          "s(up).dialect(cublas) is refused: there is no dialect 'cublas', expected halide or cublaslt or onednn; the "
          "nearest "
          "legal line is "
          "s(up).dialect(halide)");
    Compiled<Chain> c({{"batch", "3"}}, [](Chain &c, Step &s) {
        s(c.up).dialect(onednn), s(d(c.norm)).dialect(onednn), s(d(c.head.W)).dialect(onednn),
            s(c.head).dialect(halide);
    });
    CHECK(dialect_of(c, "up") == "onednn: a line of the step schedule");
    CHECK(dialect_of(c, "d(norm)") == "onednn: a line of the step schedule");
    CHECK(dialect_of(c, "d(head.weight)") == "onednn: a line of the step schedule");
    CHECK(dialect_of(c, "head") == "halide: a line of the step schedule");
    CHECK(dialect_of(c, "down") == "halide: the default");
}

TEST_CASE("dialects: what else is in the loops, the format, the layout, the device") {
    CHECK(message_of([](Chain &c, Step &s) { s(c.norm).compute_at(c.down), s(c.down).dialect(onednn); }) ==
          "s(down).dialect(onednn) is refused: 'norm' is computed in its loops, and a dialect reads only stored "
          "arrays; the "
          "nearest legal line "
          "is s(down).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(d(c.up.W)).compute_at(next(c.up.W)), s(d(c.up.W)).dialect(onednn); }) ==
          "s(d(up.weight)).dialect(onednn) is refused: an update is in its loops; the nearest legal line is "
          "s(d(up.weight)).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(c.down).dialect(onednn); }, {}, bf16) ==
          "s(down).dialect(onednn) is refused: onednn computes this product in float32 only, and its factors are "
          "bfloat16; the "
          "nearest legal line "
          "is s(down).dialect(halide)");
    CHECK(
        message_of([](Chain &c, Step &s) { s(c.down).dialect(onednn); }, {}, fp32,
                   test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles})) ==
        "s(down).dialect(onednn) is refused: onednn runs on the CPU, and the step on opencl; the nearest legal line is "
        "s(down).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) {
              s.layout(c.down.W, panels(4, 1)), s(c.down).dialect(onednn);
          }).find("the weight 'down.weight' is stored in panels of the product's inputs") != std::string::npos);
    CHECK(message_of([](Chain &c, Step &s) { s.layout(c.down.W, panels(4, 0)), s(c.down).dialect(onednn); }) == "");
    CHECK(message_of([](Chain &c, Step &s) { s(c.relu).compute_with(c.up), s(c.up).dialect(onednn); }) == "");
}

TEST_CASE("dialects: which convolutions") {
    CHECK(message_of_images([](Images &c, Step &s) { s(c.other).dialect(onednn); }) ==
          "s(other).dialect(onednn) is refused: it is not known to be a matrix product or a convolution, and a dialect "
          "computes only those; the nearest legal line is s(other).dialect(halide)");
    CHECK(message_of_images([](Images &c, Step &s) { s(c.larger).dialect(onednn); }) ==
          "s(larger).dialect(onednn) is refused: it is not known to be a matrix product or a convolution, and a "
          "dialect computes only those; the nearest legal line is "
          "s(larger).dialect(halide)");
    CHECK(message_of_images([](Images &c, Step &s) { s(d(*c.one.b)).dialect(onednn); }) ==
          "s(d(one.bias)).dialect(onednn) is refused: it is not known to be a matrix product or a convolution, and a "
          "dialect computes only those; the nearest legal line is "
          "s(d(one.bias)).dialect(halide)");
    CHECK(message_of_images([](Images &c, Step &s) {
              s(d(c.two.W)).compute_at(next(c.two.W)), s(d(c.two.W)).dialect(onednn);
          }) == "s(d(two.weight)).dialect(onednn) is refused: an update is in its loops; the nearest legal line is "
                "s(d(two.weight)).dialect(halide)");
    CHECK(message_of_images([](Images &c, Step &s) { s.layout(c.two.W, panels(4, 0)), s(c.two).dialect(onednn); }) ==
          "s(two).dialect(onednn) is refused: onednn has no convolution whose weight is stored in panels; the nearest "
          "legal line is s(two).dialect(halide)");
    CHECK(message_of_images(
              [](Images &c, Step &s) { s.layout(c.place.W, panels(4, 0)), s(c.place).dialect(onednn); }) == "");
    CHECK(message_of_images([](Images &c, Step &s) { s(c.two).dialect(onednn); }, bf16) == "");
    CHECK(
        message_of_images([](Images &c, Step &s) { c.two.numerics(Casts{.inputs = true}), s(c.two).dialect(onednn); },
                          bf16) ==
        "s(two).dialect(onednn) is refused: onednn computes this product in float32 only, and its factors are float32 "
        "and bfloat16; the nearest legal line is s(two).dialect(halide)");
    CHECK(message_of_images([](Images &c, Step &s) { s(d(c.norm.g)).dialect(onednn); }) ==
          "s(d(norm.weight)).dialect(onednn) is refused: it is not known to be a matrix product or a convolution, and "
          "a dialect computes only those; the nearest legal line is "
          "s(d(norm.weight)).dialect(halide)");
    CHECK(message_of_images([](Images &c, Step &s) { s(c.relu).compute_at(c.two), s(c.two).dialect(onednn); }) ==
          "s(two).dialect(onednn) is refused: 'relu' is computed in its loops, and a dialect reads only stored arrays; "
          "the nearest "
          "legal line is s(two).dialect(halide)");
    const Halide::Target cuda = test_target({Halide::Target::CUDA, Halide::Target::CUDACapability80});
    CHECK(message_of_images([](Images &c, Step &s) { s(c.two).dialect(cublaslt); }, fp32, cuda) ==
          "s(two).dialect(cublaslt) is refused: cublaslt has no convolutions; the nearest legal line is "
          "s(two).dialect(halide)");
    const Compiled<Images> c({{"batch", "3"}}, {}, {.update = "backward", .dialect = "onednn"});
    for (const char *stage : {"one", "d(relu)", "d(one.weight)", "two", "d(two)", "d(two.weight)", "place"}) {
        CAPTURE(stage);
        CHECK(dialect_of(c, stage) == "onednn: --dialect onednn");
    }
    Product two = product_of(c.program, c.program.kernels[c.kernel("forward", "two")]);
    CHECK(two.rows == 3 * 5 * 4);
    CHECK(two.window == Product::Window{3, 5, 4, 3, 1, 2, 2, 1});
    CHECK(two.flops() == 2.0 * two.rows * 5 * 6 * 9);
    CHECK(nlohmann::json(two).get<Product>() == two);
    CHECK(!product_of(c.program, c.program.kernels[c.kernel("forward", "place")]).window);

    two.weight = 0, two.x = 1, two.stores = -1, two.then = {{"bias", 2, 3}};
    const std::vector<Product::Argument> arguments = {{"float32", 6 * 5 * 9, false},
                                                      {"float32", 5 * 5 * 4 * 3, false},
                                                      {"float32", 6, false},
                                                      {"float32", 6 * 5 * 4 * 3, true}};
    auto refusal = [&](int Product::Window::*number, int value) {
        Product p = two;
        (*p.window).*number = value;
        return error_of([&] { p.check(arguments); });
    };
    CHECK(refusal(&Product::Window::stride, 1) == "");
    CHECK(refusal(&Product::Window::stride, 2) == "a convolution has 60 rows, expected 3 images of 3 x 2 places");
    CHECK(refusal(&Product::Window::padding, -1) == "a convolution has 'padding' -1");
    CHECK(refusal(&Product::Window::dilation, 0) == "a convolution has 'dilation' 0");
    CHECK(refusal(&Product::Window::groups, 2) == "2 groups do not divide 5 and 6 channels");
    CHECK(refusal(&Product::Window::size, 1 << 30).find("a convolution has 60 rows") == 0);
    CHECK(refusal(&Product::Window::images, 1 << 30).find("a convolution has 60 rows") == 0);
}

TEST_CASE("dialects: cuBLASLt on a GPU: which products it computes, and its workspace") {
    const Halide::Target cuda = test_target({Halide::Target::CUDA, Halide::Target::CUDACapability80});
    CHECK(message_of([](Chain &c, Step &s) { s(c.down).dialect(cublaslt); }) ==
          "s(down).dialect(cublaslt) is refused: cublaslt runs on cuda, and the step on cpu; the nearest legal line is "
          "s(down).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(c.down).dialect(onednn); }, {}, fp32, cuda) ==
          "s(down).dialect(onednn) is refused: onednn runs on the CPU, and the step on cuda; the nearest legal line is "
          "s(down).dialect(halide)");
    CHECK(message_of([](Chain &c, Step &s) { s(c.relu).compute_with(c.up), s(c.up).dialect(cublaslt); }, {}, fp32,
                     cuda) ==
          "s(up).dialect(cublaslt) is refused: cublaslt stores no value before its 'relu'; the nearest legal line is "
          "s(up).dialect(halide)");
    const Compiled<Chain> c(
        {{"batch", "3"}}, [](Chain &c, Step &s) { s(c.up).dialect(cublaslt); }, {.tfloat32 = true}, fp32, cuda);
    CHECK(dialect_of(c, "up") == "cublaslt: a line of the step schedule");
    CHECK(dialect_of(c, "down") == "halide: the default");
    const ir::Kernel &up = c.program.kernels[c.kernel("forward", "up")];
    CHECK(product_of(c.program, up).type == "tfloat32");
    CHECK(up.dialects.empty());
    REQUIRE(up.workspace);
    CHECK(c.program.values[up.workspace].bytes() == 16 * 4 * 3 * 7 + (64 << 10) + 256);
    CHECK(c.program.memory.offset.count(up.workspace) == 1);
}

TEST_CASE("dialects: --dialect keeps updates out of products that it computes, but for a line of the schedule") {
    for (const char *update : {"auto", "backward"}) {
        Compiled<Chain> c({{"batch", "3"}}, [](Chain &c, Step &s) { s(d(c.head.W)).compute_at(next(c.head.W)); },
                          {.update = update, .dialect = "onednn"});
        CHECK(update_of(c, "next(up.weight)") ==
              "root: --dialect onednn: onednn computes the gradient, and its loops cannot hold an update");
        CHECK(dialect_of(c, "d(up.weight)") == "onednn: --dialect onednn");
        CHECK(dialect_of(c, "d(head.weight)") == "halide: an update is in its loops");
    }
    {  // one model at a time: parameters that live have to be used
        Compiled<Chain> line({{"batch", "3"}}, [](Chain &c, Step &s) { s(d(c.up.W)).dialect(onednn); },
                             {.update = "backward"});
        CHECK(update_of(line, "next(up.weight)") ==
              "root: a line of the step schedule: onednn computes the gradient, and its loops cannot hold an update");
        CHECK(update_of(line, "next(down.weight)") == "with its gradient: --update backward");
    }
    {
        Compiled<Chain> none({{"batch", "3"}}, {}, {.update = "backward"});
        CHECK(dialect_of(none, "d(up.weight)") == "halide: an update is in its loops");
    }
    Compiled<Gpt> half(
        {{"layers", "1"}, {"heads", "2"}, {"width", "32"}, {"vocab", "11"}, {"context", "5"}, {"batch", "2"}}, {},
        {.update = "backward", .dialect = "onednn"}, bf16);
    CHECK(dialect_of(half, "h.0.mlp.c_fc") ==
          "halide: onednn computes this product in float32 only, and its factors are bfloat16");
    CHECK(dialect_of(half, "d(h.0.mlp.c_fc.weight)").find("halide: an update is in its loops") == 0);
}

}  // namespace cryolite::test
