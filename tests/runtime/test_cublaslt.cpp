// Products by the dialect cublaslt on the device cuda, against doubles of the driver and of the library: what each
// recorded product comes to, as its descriptors say, is what plain loops of the host come to.

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>

#include "dialects/cublaslt/api.h"
#include "runtime/cache/tuned_algorithms.h"
#include "tests/runtime/product_trial.h"
#include "tests/runtime/scratch.h"

#if __has_include(<cublasLt.h>) && __has_include(<cuda_fp16.h>) && __has_include(<driver_types.h>)
#include <cublasLt.h>
#endif

namespace cryolite::test {

namespace {

Product product(Product::Form form, int rows, int in, int out, int panel = 0, const std::string &type = "float32",
                const std::string &result = "float32") {
    return {.form = form, .type = type, .result = result, .rows = rows, .in = in, .out = out, .panel = panel};
}

void check(const Product &p, const Words &ops = {}, bool bias_gradient = false) {
    ProductTrial t(p, ops, bias_gradient);
    INFO(nlohmann::json(t.p).dump());
    t.prepare(), t.fill();
    CHECK(t.run().call == -1);
    t.check();
}

/// What a dialect says, whose errors are not the runtime's.
std::string said_by(const std::function<void()> &f) {
    try {
        f();
    } catch (const std::exception &e) {
        return e.what();
    }
    return "";
}

std::string why_not(const Product &p) { return find_dialect("cublaslt")->why_not(p); }

/// Bytes of the copy of y or dy, which products without tensor cores do not have.
int64_t copied(const Product &p) {
    Product exact = p;
    exact.type = exact.result = "float32";
    const auto workspace = find_dialect("cublaslt")->workspace;
    return workspace(p) - workspace(exact);
}

constexpr Product::Form forms[] = {Product::forward, Product::d_input, Product::d_parameter};

}  // namespace

TEST_CASE("cublaslt: every form and format, row-major and in panels, of odd extents too") {
    for (const Product::Form form : forms)
        for (auto [type, result] : {std::pair{"float32", "float32"},
                                    {"tfloat32", "float32"},
                                    {"bfloat16", "bfloat16"},
                                    {"bfloat16", "float32"},
                                    {"float16", "float16"},
                                    {"float16", "float32"}})
            for (auto [rows, in, out, panel] : {std::array{5, 7, 13, 0}, {1, 1, 1, 0}, {6, 24, 32, 16}, {3, 11, 37, 8}})
                if (const Product p = product(form, rows, in, out, panel, type, result); why_not(p).empty())
                    check(p);
                else
                    CHECK(why_not(p).find("would round the sum over each panel to " + p.result) != std::string::npos);
}

TEST_CASE("cublaslt: weights with the inputs innermost, as a tied head has them") {
    for (const Product::Form form : forms)
        for (const char *type : {"float32", "tfloat32", "bfloat16", "float16"})
            for (auto [rows, in, out] : {std::array{5, 7, 13}, {1, 1, 1}, {3, 1, 13}, {6, 24, 32}}) {
                Product p = product(form, rows, in, out, 0, type);
                p.inputs_innermost = true;
                check(p);
                if (form != Product::d_parameter) check(p, {"add"});
                p.accumulate = form == Product::d_parameter;
                check(p);
            }
    Product p = product(Product::forward, 5, 7, 24);
    p.inputs_innermost = true;
    check(p, {"bias", "kept", "gelu_tanh"});
    CHECK(nlohmann::json(p).get<Product>() == p);
    CHECK(find_dialect("onednn")->why_not(p) ==
          "onednn has no weights that are stored with the product's inputs innermost");
    p.form = Product::d_parameter, p.bias_gradient = 3;
    CHECK(why_not(p).find("cublaslt makes the gradient of a bias beside rows of outputs") == 0);
    p.panel = 8;
    CHECK(said_by([&] { p.check({}); }) == "a product's panels have its inputs innermost");
}

TEST_CASE("cublaslt: scores of an odd number are copied to rows that tensor cores take, where memory has room") {
    for (const Product::Form form : forms)
        for (auto [type, result] : {std::pair{"bfloat16", "bfloat16"},
                                    {"bfloat16", "float32"},
                                    {"float16", "float16"},
                                    {"tfloat32", "float32"}})
            for (const bool room : {true, false}) {
                Product p = product(form, 257, 256, 9, 0, type, result);
                p.inputs_innermost = true;
                p.accumulate = form == Product::d_parameter;
                const bool words = form == Product::forward ? p.result != "float32" : p.type != "tfloat32";
                CHECK(copied(p) == (257 * (words ? 16 * 2 : 12 * 4) + 255) / 256 * 256);
                ProductTrial t(p);
                INFO(nlohmann::json(t.p).dump());
                t.prepare(size_t(room ? find_dialect("cublaslt")->workspace(p) : copied(p)));
                t.fill();
                t.cuda.recorder.calls.clear();
                CHECK(t.run().call == -1);
                CHECK(t.cuda.recorder.count("cuMemcpy2DAsync") == (room ? 1 : 0));
                t.check();
            }
    auto scores = [](int rows, int in, int out, const char *type = "bfloat16", bool table = true) {
        Product p = product(Product::forward, rows, in, out, 0, type, type);
        p.inputs_innermost = table;
        return p;
    };
    Product p = scores(2048, 768, 50257);
    CHECK(copied(p) == int64_t(2048) * 50264 * 2);
    p.then = {{"bias", 3, 4}};
    CHECK(copied(p) == int64_t(2048) * 50264 * 2);
    p.then = {{"add", 3, 4}};
    CHECK(copied(p) == 0);                                            // another array has rows of that length
    CHECK(copied(scores(2048, 768, 50257, "bfloat16", false)) == 0);  // the weight's rows are as long
    CHECK(copied(scores(2048, 768, 50256)) == 0);                     // aligned as they are
    CHECK(copied(scores(2048, 767, 50257)) == 0);                     // the others begin anywhere, too
    CHECK(copied(scores(2048, 255, 50257)) == 0);                     // a copy would take as long
    CHECK(copied(scores(255, 768, 50257)) == 0);
    CHECK(copied(scores(2048, 768, 50257, "float32")) == 0);  // without tensor cores
}

TEST_CASE("cublaslt: a copy that fails is said, with the driver's words") {
    Product p = product(Product::forward, 257, 256, 9, 0, "bfloat16", "bfloat16");
    p.inputs_innermost = true;
    ProductTrial t(p);
    t.prepare(size_t(find_dialect("cublaslt")->workspace(p))), t.fill();
    t.cuda.recorder.fails = "cuMemcpy2DAsync", t.cuda.recorder.fails_at = 1;
    CHECK(t.run().call == 0);
    CHECK(t.device->last_error() == "copying rows for cublasLtMatmul: CUDA_ERROR_UNKNOWN: an error of the recorder");
}

TEST_CASE("cublaslt: every epilogue") {
    for (const int panel : {0, 16}) {
        const Product y = product(Product::forward, 5, 7, 24, panel), dx = product(Product::d_input, 5, 8, 24, panel);
        for (const Words &ops : {Words{"bias"},
                                 {"add"},
                                 {"bias", "add"},
                                 {"relu"},
                                 {"bias", "relu"},
                                 {"gelu_tanh"},
                                 {"bias", "gelu_tanh"},
                                 {"bias", "kept", "gelu_tanh"},
                                 {"bias", "add", "gelu_tanh"},
                                 {"bias", "add", "kept", "gelu_tanh"}})
            check(y, ops);
        for (const Words &ops : {Words{"add"}, {"d_gelu_tanh"}, {"add", "d_gelu_tanh"}}) check(dx, ops);
        for (const int out : {24, 37}) {
            Product dW = product(Product::d_parameter, 5, 7, out, panel);
            check(dW, {}, true);
            dW.accumulate = true;
            check(dW);
        }
    }
    check(product(Product::forward, 5, 7, 24, 8, "bfloat16", "bfloat16"), {"bias", "kept", "gelu_tanh"});
    check(product(Product::d_parameter, 5, 7, 24, 0, "float16", "float32"), {}, true);
}

TEST_CASE("cublaslt: parts of a sum are added in fp32, also where the result has 16 bits") {
    for (const char *result : {"float32", "bfloat16"}) {
        ProductTrial t(product(Product::forward, 5, 7, 24, 0, "bfloat16", result));
        t.prepare();
        CHECK(t.lt.recorder.reductions == (result[0] == 'f' ? 7 : 2));  // all; of the compute type
    }
}

TEST_CASE("cublaslt: what it cannot do, and why") {
    auto with = [](Product p, std::vector<Product::Then> then) { return p.then = std::move(then), why_not(p); };
    const Product y = product(Product::forward, 5, 7, 24), odd = product(Product::forward, 5, 7, 20);
    CHECK(with(y, {{"gelu_erf", -1, 3}}) == "cublaslt has no 'gelu_erf'");
    CHECK(with(y, {{"bias", 2, 3}, {"relu", -1, 4}}) == "cublaslt stores no value before its 'relu'");
    CHECK(with(y, {{"bias", 2, 3}, {"add", 5, 4}}) == "cublaslt stores no value before its 'add'");
    CHECK(with(y, {{"gelu_tanh", -1, -1}, {"add", 5, 4}}) ==
          "cublaslt can compute nothing after 'gelu_tanh', and 'add' follows");
    CHECK(with(y, {{"add", 5, -1}, {"add", 6, 4}}) ==
          "cublaslt adds one array to a product, and this one adds several");
    CHECK(with(y, {{"bias", 2, -1}, {"d_gelu_tanh", 3, 4}}) == "cublaslt has no slope of GELU after a bias");
    CHECK(with(odd, {{"bias", 2, 3}, {"gelu_tanh", -1, 4}}) ==
          "cublaslt keeps GELU's argument in rows of a multiple of 8 elements, and they have 20");
    CHECK(with(odd, {{"bias", 2, -1}, {"gelu_tanh", -1, 4}}) == "");
    CHECK(why_not(product(Product::forward, 5, 7, 24, 0, "float64")) == "cublaslt has no products of float64");
    CHECK(why_not(product(Product::forward, 5, 7, 24, 0, "float16", "bfloat16")) ==
          "cublaslt has no products of float16 with results of bfloat16");
    Product sums = product(Product::d_parameter, 5, 7, 24);
    sums.accumulate = true, sums.bias_gradient = 3;
    CHECK(why_not(sums) == "cublaslt does not add to the gradient of a bias");
}

TEST_CASE("cublaslt: the fastest algorithm that fits is taken, measured once and remembered") {
    Scratch folder;
    const Product p = product(Product::forward, 5, 7, 13);
    auto algorithm = [](ProductTrial &t) { return t.lt.recorder.calls.back().algorithm; };
    {
        ProductTrial t(p);
        t.device->use_records(std::make_shared<TunedAlgorithms>(folder.path));
        t.prepare();
        CHECK(algorithm(t) == 3);  // the last that was tried
        CHECK(t.lt.recorder.calls.size() == 12);
        t.prepare(), t.run();
        CHECK(t.lt.recorder.asked == 1);          // known to the process
        CHECK(t.lt.recorder.calls.size() == 14);  // once for its kernel to be loaded, before the step
        CHECK(algorithm(t) == 2);
    }
    {
        ProductTrial t(p);
        t.device->use_records(std::make_shared<TunedAlgorithms>(folder.path));
        t.prepare(), t.run();
        CHECK(t.lt.recorder.asked == 0);  // known to the machine
        CHECK(algorithm(t) == 2);
    }
    {
        ProductTrial t(p);
        t.device->use_records(std::make_shared<TunedAlgorithms>(folder.path));
        t.lt.recorder.refuses = 2, t.lt.recorder.algorithms = 1;
        t.prepare(), t.run();
        CHECK(algorithm(t) == 1);  // one that the library does not know any more
    }
    {
        ProductTrial t(p);
        t.lt.recorder.version = 130100;
        t.prepare(100), t.run();
        CHECK(algorithm(t) == 1);  // the others need more than is planned
    }
    ProductTrial t(p);
    struct Damaged : AlgorithmRecords {
        std::string find(const std::string &, const std::string &, const std::string &) override { return "2; rm"; }
        void keep(const std::string &, const std::string &, const std::string &, const std::string &, double) override {
        }
    };
    t.device->use_records(std::make_shared<Damaged>());
    t.prepare();
    CHECK(t.lt.recorder.asked == 1);
}

TEST_CASE("cublaslt: a product is in the graph of its step, and nobody waits") {
    ProductTrial t(product(Product::forward, 5, 7, 24), {"bias", "kept", "gelu_tanh"});
    t.prepare(), t.fill();
    t.cuda.recorder.slow = true, t.cuda.recorder.calls.clear();
    const std::unique_ptr<Replay> replay = t.device->make_replay();
    for (int run = 0; run < 3; run++) CHECK(t.run(replay.get()).call == -1);
    CHECK(t.cuda.recorder.text() == "cublasLtMatmul\n"
                                    "cuStreamBeginCapture\n"
                                    "cublasLtMatmul\n"
                                    "cuStreamEndCapture\n"
                                    "cuGraphInstantiate\n"
                                    "cuGraphDestroy\n"
                                    "cuGraphLaunch\n"
                                    "cuGraphLaunch\n");
    CHECK(t.cuda.recorder.waits() == 0);
    t.check();
}

TEST_CASE("cublaslt: no algorithm, one that fails, and calls of the driver that fail while it is timed") {
    {
        ProductTrial t(product(Product::forward, 5, 7, 24), {"bias"});
        t.lt.recorder.unsupported = 4;
        CHECK(said_by([&] { t.prepare(); }) ==
              "cuBLASLt has no algorithm for it (CUBLAS_STATUS_NOT_SUPPORTED); compute it by Halide: --dialect halide, "
              "or a line s(...).dialect(halide)");
        t.lt.recorder.unsupported = 0;
        t.prepare();
        t.lt.recorder.fails_at = 1;
        CHECK(t.run().call == 0);
        CHECK(t.device->last_error() == "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED");
    }
    for (const char *call : {"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"}) {
        CAPTURE(call);
        ProductTrial t(product(Product::forward, 5, 7, 24));
        t.lt.recorder.unsupported = 1;
        CHECK(said_by([&] { t.prepare(); }) != "");  // memory is there now
        t.lt.recorder.unsupported = 0;
        t.cuda.recorder.fails = call, t.cuda.recorder.fails_at = 1;
        CHECK(said_by([&] { t.prepare(); }).find("failed: CUDA_ERROR_UNKNOWN: an error of the recorder") !=
              std::string::npos);
        t.prepare(), t.fill();
        CHECK(t.run().call == -1);
        t.check();
    }
}

TEST_CASE("cublaslt: no library, one that is none, and an old one: each with what helps") {
    const Dialect *dialect = load_dialect("cublaslt");
    REQUIRE(dialect);
    {
        const UseCublasLtRecorder use("/nowhere/libcublasLt.so");
        CHECK(dialect->missing().find("CRYOLITE_CUBLASLT names /nowhere/libcublasLt.so, which cannot be loaded") == 0);
    }
    {
        const UseCublasLtRecorder use("libm.so.6");
        CHECK(dialect->missing() ==
              "libm.so.6 has no function cublasLtGetVersion: it is no cuBLASLt; or use --dialect halide");
    }
    {
        const UseCublasLtRecorder use("");
        if (const std::string said = dialect->missing(); said.empty())
            MESSAGE("this machine has cuBLASLt");
        else
            CHECK(said.find("there is no libcublasLt.so.13, libcublasLt.so.12, libcublasLt.so.11 here: install cuBLAS "
                            "of the CUDA Toolkit") == 0);
    }
    const UseCublasLtRecorder use;
    CHECK(dialect->missing() == "");
    CHECK(dialect->version() == "cuBLASLt 120400");
    CHECK(said_by([&] { dialect->prepare(product(Product::forward, 1, 1, 1), {}); }) == "it is not on a GPU");
    {
        const std::string newer = std::string("/.") + CRYOLITE_CUBLASLT_RECORDER;
        UseRecorder cuda;
        const UseCublasLtRecorder use(newer.c_str());
        use.recorder.version = 130100, cuda.recorder.version = 12080;
        const std::unique_ptr<Device> gpu = make_device("cuda", 1);
        const Product p = product(Product::forward, 1, 1, 1);
        CHECK(said_by([&] { dialect->prepare(p, {.arguments = {}, .gpu = gpu->gpu()}); }) ==
              newer + " is cuBLASLt 130100, of CUDA 13, and the driver is that of CUDA 12.8: update the driver of the "
                      "GPU, install cuBLAS of CUDA 12, or use --dialect halide");
        const UseCublasLtRecorder none("");
        const std::string said = said_by([&] { dialect->prepare(p, {.arguments = {}, .gpu = gpu->gpu()}); });
        CHECK(said.find("libcublasLt.so.13") == std::string::npos);  // which this driver could not use
    }
    {
        const std::string again = std::string("/") + CRYOLITE_CUBLASLT_RECORDER;  // libraries are asked once, by name
        const UseCublasLtRecorder old(again.c_str());
        old.recorder.version = 11300;
        CHECK(dialect->missing() == again + " is cuBLASLt 11300, and 11.5 is needed, which CUDA 11.4 has; install a "
                                            "newer one, or use --dialect halide");
    }
}

#if __has_include(<cublasLt.h>) && __has_include(<cuda_fp16.h>) && __has_include(<driver_types.h>)
TEST_CASE("cublaslt: its numbers are those of the library's header") {
    using Api = of_cublaslt::Api;
    static_assert(sizeof(Api::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
    static_assert(sizeof(Api::Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
    static_assert(offsetof(Api::Candidate, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
    static_assert(offsetof(Api::Candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
    const std::array<std::pair<int, int>, 29> same = {{
        {Api::float32, CUDA_R_32F},
        {Api::float16, CUDA_R_16F},
        {Api::bfloat16, CUDA_R_16BF},
        {Api::in_float32, CUBLAS_COMPUTE_32F},
        {Api::in_tfloat32, CUBLAS_COMPUTE_32F_FAST_TF32},
        {Api::transpose, CUBLAS_OP_T},
        {Api::transposes_a, CUBLASLT_MATMUL_DESC_TRANSA},
        {Api::transposes_b, CUBLASLT_MATMUL_DESC_TRANSB},
        {Api::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE},
        {Api::bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER},
        {Api::bias_apart, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE},
        {Api::argument_pointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER},
        {Api::argument_stride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD},
        {Api::argument_apart, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE},
        {Api::batch, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT},
        {Api::apart, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET},
        {Api::most_workspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES},
        {Api::reductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK},
        {int(Api::reduces_in_compute_type), CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
        {Api::alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
        {Api::alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
        {Api::plain, CUBLASLT_EPILOGUE_DEFAULT},
        {Api::relu | Api::with_bias, CUBLASLT_EPILOGUE_RELU_BIAS},
        {Api::with_bias, CUBLASLT_EPILOGUE_BIAS},
        {Api::gelu, CUBLASLT_EPILOGUE_GELU},
        {Api::gelu | Api::with_bias, CUBLASLT_EPILOGUE_GELU_BIAS},
        {Api::gelu | Api::keeps_argument | Api::with_bias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS},
        {Api::d_gelu, CUBLASLT_EPILOGUE_DGELU},
        {Api::bias_gradient_of_a, CUBLASLT_EPILOGUE_BGRADA},
    }};
    for (const auto &[ours, theirs] : same) CHECK(ours == theirs);
}
#endif

}  // namespace cryolite::test
