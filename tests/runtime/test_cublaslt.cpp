// Products by the dialect cublaslt on the device cuda, against doubles of the driver and of the library: what each
// recorded product comes to, as its descriptors say, is what plain loops of the host come to.

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "dialects/cublaslt/api.h"
#include "dialects/dialect.h"
#include "runtime/cache/tuned_algorithms.h"
#include "runtime/device/make_device.h"
#include "tests/cuda/number_formats.h"
#include "tests/cuda/use_cublaslt_recorder.h"
#include "tests/cuda/use_recorder.h"
#include "tests/runtime/formula.h"
#include "tests/runtime/scratch.h"

#if __has_include(<cublasLt.h>) && __has_include(<cuda_fp16.h>) && __has_include(<driver_types.h>)
#include <cublasLt.h>
#endif

namespace cryolite::test {

namespace {

using Words = std::vector<std::string>;

int format_of(const std::string &type) { return type == "float16" ? float16 : type == "bfloat16" ? bfloat16 : float32; }

/// A product with arrays of its own on a GPU, and what plain loops make of them.
class Trial {
public:
    UseRecorder cuda;
    UseCublasLtRecorder lt;

    explicit Trial(Product given, const Words &ops = {}, bool bias_gradient = false) : p(std::move(given)) {
        const int64_t of_x = int64_t(p.rows) * p.in, of_y = int64_t(p.rows) * p.out, of_W = weights();
        const int64_t of_result = p.form == Product::forward ? of_y : p.form == Product::d_input ? of_x : of_W;
        if (p.form != Product::d_parameter) p.weight = add(p.type, of_W, false);
        if (p.form != Product::d_input) p.x = add(p.type, of_x, false);
        if (p.form != Product::forward) p.dy = add(p.type, of_y, false);
        for (const std::string &op : ops) {
            if (op == "kept") {
                p.then.back().stores = add(p.result, of_result, true);
                continue;
            }
            const bool reads = op == "bias" || op == "add" || op.starts_with("d_");
            p.then.push_back({op, reads ? add(p.result, op == "bias" ? p.out : of_result, false) : -1, -1});
        }
        (p.then.empty() ? p.stores : p.then.back().stores) = add(p.result, of_result, true);
        if (bias_gradient) p.bias_gradient = add(p.result, p.out, true);
        p.check(arguments);
        device = make_device("cuda", 1);
    }
    ~Trial() {
        ready.reset();
        for (DeviceMemory &m : memory) device->release(m);
        if (workspace.address) device->release(workspace);
        device.reset();
        CHECK(lt.recorder.handles == 0);
        CHECK(lt.recorder.objects == 0);
        for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
    }

    void prepare(size_t workspace_bytes = 1 << 16) {
        if (memory.empty())
            for (const Product::Argument &a : arguments)
                memory.push_back(device->allocate(size_t(a.elements * bytes_of(format_of(a.type))), "argument"));
        constexpr size_t apart = 64;  // as places of an arena are
        if (!workspace.address) workspace = device->allocate(workspace_bytes + apart, "workspace");
        ProductPlace place{.arguments = {},
                           .workspace = static_cast<char *>(workspace.address) + apart,
                           .workspace_bytes = workspace_bytes,
                           .gpu = device->gpu()};
        for (const DeviceMemory &m : memory) place.arguments.push_back(m.address);
        ready = load_dialect("cublaslt")->prepare(p, place);
    }
    /// Numbers from a formula into every array, those that are written among them.
    void fill() {
        values.clear();
        for (size_t a = 0; a < arguments.size(); a++) {
            const int format = format_of(arguments[a].type);
            auto &v = values.emplace_back(size_t(arguments[a].elements));
            std::vector<char> stored(v.size() * size_t(bytes_of(format)));
            for (size_t i = 0; i < v.size(); i++) {
                const double x = double(formula_bits("cublaslt " + std::to_string(a), i) >> 11) * 0x1p-53 - 0.5;
                store(stored.data(), int64_t(i), format, float(2 * x)), v[i] = load(stored.data(), int64_t(i), format);
            }
            device->upload(memory[a], 0, stored.data(), stored.size());
        }
    }
    CallFailure run(Replay *replay = nullptr) {
        const KernelCall call{run_ready, argv.data()};
        argv[1] = ready.get();
        context = device->context();
        return device->run({&call, 1}, replay);
    }
    std::vector<float> get(int argument) {
        const Product::Argument &a = arguments[size_t(argument)];
        std::vector<char> stored(size_t(a.elements * bytes_of(format_of(a.type))));
        device->download(stored.data(), memory[size_t(argument)], 0, stored.size());
        device->finish();
        std::vector<float> v(static_cast<size_t>(a.elements));
        for (size_t i = 0; i < v.size(); i++) v[i] = load(stored.data(), int64_t(i), format_of(a.type));
        return v;
    }
    /// All that is stored, and what is between the columns of a panel and its end, as it was.
    void check() {
        const double bits = p.result == "float16" ? 0x1p-10 : p.result == "bfloat16" ? 0x1p-7 : 1e-5;
        for (auto &[argument, expected] : expected_values()) {
            const std::vector<float> got = get(argument);
            double worst = 0;
            for (size_t i = 0; i < got.size(); i++)
                worst = std::max(worst, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
            CAPTURE(argument);
            CHECK(worst < bits);
        }
    }

    Product p;
    std::vector<Product::Argument> arguments;
    std::unique_ptr<Device> device;
    std::unique_ptr<Ready> ready;

private:
    std::deque<DeviceMemory> memory;
    DeviceMemory workspace;
    std::deque<std::vector<float>> values;
    void *context = nullptr;
    std::array<void *, 2> argv = {&context, nullptr};

    int add(const std::string &type, int64_t elements, bool written) {
        arguments.push_back({type == "tfloat32" ? "float32" : type, elements, written});
        return int(arguments.size()) - 1;
    }
    int64_t weights() const {
        return p.panel ? int64_t(p.out + p.panel - 1) / p.panel * p.panel * p.in : int64_t(p.out) * p.in;
    }
    size_t at_weight(int o, int i) const {
        if (!p.panel) return size_t(i) * size_t(p.out) + size_t(o);
        return size_t(o / p.panel) * size_t(p.panel * p.in) + size_t(i * p.panel + o % p.panel);
    }
    double factor(int argument, size_t i) const {
        const float x = values[size_t(argument)][i];
        return p.type == "tfloat32" ? rounded(x, 10) : x;
    }
    double product(int row, int column) const {  // of the result, `column` innermost
        double sum = 0;
        if (p.form == Product::forward)
            for (int i = 0; i < p.in; i++) sum += factor(p.weight, at_weight(column, i)) * factor(p.x, at_x(i, row));
        else if (p.form == Product::d_input)
            for (int o = 0; o < p.out; o++) sum += factor(p.weight, at_weight(o, column)) * factor(p.dy, at_y(o, row));
        else
            for (int r = 0; r < p.rows; r++) sum += factor(p.dy, at_y(column, r)) * factor(p.x, at_x(row, r));
        return sum;
    }
    size_t at_x(int i, int r) const { return size_t(r) * size_t(p.in) + size_t(i); }
    size_t at_y(int o, int r) const { return size_t(r) * size_t(p.out) + size_t(o); }

    std::map<int, std::vector<double>> expected_values() const {
        std::map<int, std::vector<double>> all;
        for (size_t a = 0; a < arguments.size(); a++)
            if (arguments[a].written) all[int(a)] = {values[a].begin(), values[a].end()};
        const int columns = p.form == Product::d_input ? p.in : p.out;
        const int rows = p.form == Product::d_parameter ? p.in : p.rows;
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
                const size_t at = p.form == Product::d_parameter ? at_weight(c, r) : size_t(r * columns + c);
                double x = product(r, c);
                if (p.accumulate) x += values[size_t(p.stores)][at];
                if (p.stores >= 0) all[p.stores][at] = x;
                for (const Product::Then &t : p.then) {
                    const double read = t.reads < 0 ? 0 : values[size_t(t.reads)][t.op == "bias" ? size_t(c) : at];
                    x = after(t.op, x, read);
                    if (t.stores >= 0) all[t.stores][at] = x;
                }
            }
        for (int o = 0; p.bias_gradient >= 0 && o < p.out; o++) {
            double sum = 0;
            for (int r = 0; r < p.rows; r++) sum += values[size_t(p.dy)][at_y(o, r)];
            all[p.bias_gradient][size_t(o)] = sum;
        }
        return all;
    }
    static double after(const std::string &op, double x, double read) {
        const double k = std::sqrt(2 / std::acos(-1));
        auto tanh_at = [&](double v) { return std::tanh(k * (v + 0.044715 * v * v * v)); };
        if (op == "bias" || op == "add") return x + read;
        if (op == "relu") return std::max(x, 0.0);
        if (op == "gelu_tanh") return 0.5 * x * (1 + tanh_at(x));
        const double t = tanh_at(read);
        return x * (0.5 * (1 + t) + 0.5 * read * (1 - t * t) * k * (1 + 3 * 0.044715 * read * read));
    }
};

Product product(Product::Form form, int rows, int in, int out, int panel = 0, const std::string &type = "float32",
                const std::string &result = "float32") {
    return {.form = form, .type = type, .result = result, .rows = rows, .in = in, .out = out, .panel = panel};
}

void check(const Product &p, const Words &ops = {}, bool bias_gradient = false) {
    Trial t(p, ops, bias_gradient);
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

TEST_CASE("cublaslt: what it cannot do, and why") {
    auto with = [](Product p, std::vector<Product::Then> then) { return p.then = std::move(then), why_not(p); };
    const Product y = product(Product::forward, 5, 7, 24), odd = product(Product::forward, 5, 7, 20);
    CHECK(with(y, {{"gelu_erf", -1, 3}}) == "cublaslt has no 'gelu_erf'");
    CHECK(with(y, {{"bias", 2, 3}, {"relu", -1, 4}}) == "cublaslt stores no value before its 'relu'");
    CHECK(with(y, {{"bias", 2, 3}, {"add", 5, 4}}) == "cublaslt stores no value before its 'add'");
    CHECK(with(y, {{"gelu_tanh", -1, -1}, {"add", 5, 4}}) ==
          "cublaslt has nothing after 'gelu_tanh', and 'add' follows");
    CHECK(with(y, {{"add", 5, -1}, {"add", 6, 4}}) == "cublaslt adds one array, and it has several");
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
    auto algorithm = [](Trial &t) { return t.lt.recorder.calls.back().algorithm; };
    {
        Trial t(p);
        t.device->use_records(std::make_shared<TunedAlgorithms>(folder.path));
        t.prepare();
        CHECK(algorithm(t) == 3);  // the last that was tried
        CHECK(t.lt.recorder.calls.size() == 12);
        t.prepare(), t.run();
        CHECK(t.lt.recorder.asked == 1);  // known to the process
        CHECK(t.lt.recorder.calls.size() == 13);
        CHECK(algorithm(t) == 2);
    }
    {
        Trial t(p);
        t.device->use_records(std::make_shared<TunedAlgorithms>(folder.path));
        t.prepare(), t.run();
        CHECK(t.lt.recorder.asked == 0);  // known to the machine
        CHECK(algorithm(t) == 2);
    }
    {
        Trial t(p);
        t.device->use_records(std::make_shared<TunedAlgorithms>(folder.path));
        t.lt.recorder.refuses = 2, t.lt.recorder.algorithms = 1;
        t.prepare(), t.run();
        CHECK(algorithm(t) == 1);  // one that the library does not know any more
    }
    {
        Trial t(p);
        t.lt.recorder.version = 130100;
        t.prepare(100), t.run();
        CHECK(algorithm(t) == 1);  // the others need more than is planned
    }
    Trial t(p);
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
    Trial t(product(Product::forward, 5, 7, 24), {"bias", "kept", "gelu_tanh"});
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
        Trial t(product(Product::forward, 5, 7, 24), {"bias"});
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
        Trial t(product(Product::forward, 5, 7, 24));
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
    const std::array<std::pair<int, int>, 27> same = {{
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
