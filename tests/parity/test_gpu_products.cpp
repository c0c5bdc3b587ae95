// Whole steps whose products are cuBLASLt's, on the device cuda against doubles of the driver and of the library: those
// compute on the host what is put into the streams. Halide's kernels are those of the CPU, whose plan is changed to be
// the GPU's: nothing here runs PTX. So the losses and the weights have to be the CPU's.

#include <cstring>
#include <deque>
#include <set>

#include "dialects/dialect.h"
#include "tests/cuda/use_cublaslt_recorder.h"
#include "tests/cuda/use_recorder.h"
#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

/// A kernel of the CPU as a function of the recorder, which knows addresses.
std::function<void(const std::vector<const void *> &)> host_kernel(std::shared_ptr<Bundle> cpu, int number,
                                                                   std::shared_ptr<Device> device) {
    return [=](const std::vector<const void *> &values) {
        const PlanKernel &k = cpu->plan.kernels[size_t(number)];
        std::deque<std::vector<halide_dimension_t>> dimensions;
        std::deque<halide_buffer_t> buffers;
        void *context = device->context();
        std::vector<void *> argv = {&context};
        for (size_t a = 0; a < k.args.size(); a++) {
            DeviceMemory memory;
            std::memcpy(&memory.address, values.at(a), sizeof memory.address);
            auto &dims = dimensions.emplace_back();
            int stride = 1;
            for (int e : k.args[a].extents) dims.emplace_back(0, e, stride), stride *= e;
            halide_buffer_t &b = buffers.emplace_back();
            const std::string &type = k.args[a].type;
            const int bits = std::stoi(type.substr(type.find_first_of("0123456789")));
            b.type = halide_type_t(type[0] == 'f'   ? halide_type_float
                                   : type[0] == 'i' ? halide_type_int
                                                    : halide_type_uint,
                                   uint8_t(bits));
            b.dimensions = int(dims.size()), b.dim = dims.data();
            device->bind(b, memory, 0);
            argv.push_back(&b);
        }
        const int code = cpu->kernel(number)(argv.data());
        CAPTURE(k.layer);
        CHECK(code == 0);
    };
}

struct OnRecorder {
    std::shared_ptr<Bundle> bundle;
    std::set<std::string> products;  ///< by the library: their forms and what follows them
};

/// The step of a bundle of the CPU as a bundle for the recorder: products by cuBLASLt, where it has them.
OnRecorder on_recorder(const fs::path &from, const fs::path &to) {
    const auto cpu = std::make_shared<Bundle>(from);
    const std::shared_ptr<Device> device = make_device("cpu", 1);
    CudaRecorder &recorder = CudaRecorder::get();
    const DialectLine &line = *find_dialect("cublaslt");
    json plan = json::parse(read_file(from / "plan.json"));
    plan["device"] = "cuda", plan["capability"] = 80;
    const int workspace = int(plan["buffers"].size());
    int64_t bytes = 0;
    OnRecorder result;
    for (int k = 0; k < int(plan["kernels"].size()); k++) {
        json &kernel = plan["kernels"][size_t(k)];
        const PlanKernel &known = cpu->plan.kernels[size_t(k)];
        recorder.host_kernels.push_back(int(known.args.size()));
        const PlanKernel::Dialect *other = known.dialect("onednn");
        kernel.erase("dialects");
        if (other && line.why_not(other->product).empty()) {
            const Product &p = other->product;
            kernel["dialects"] = {{{"name", "cublaslt"}, {"product", p}}}, kernel.erase("symbol");
            bytes = std::max(bytes, line.workspace(p));
            std::string words = p.panel ? "panels" : "rows";
            words += p.form == Product::forward ? " y" : p.form == Product::d_input ? " dx" : " dW";
            for (const Product::Then &t : p.then) words += " " + t.op + (t.stores >= 0 ? "" : ",");
            result.products.insert(words + (p.accumulate ? " accumulate" : ""));
            for (auto &[name, calls] : plan["plans"].items())
                for (json &c : calls)
                    if (c["kernel"] == k) c["workspace"] = workspace;
        } else {
            kernel["symbol"] = "host_kernel_" + std::to_string(k);
            recorder.kernels["host_kernel_" + std::to_string(k)] = host_kernel(cpu, k, device);
        }
    }
    REQUIRE(recorder.host_kernels.size() <= 100);
    plan["buffers"].push_back({{"name", "workspace"},
                               {"role", "activation"},
                               {"type", "uint8"},
                               {"shape", {bytes}},
                               {"bytes", bytes},
                               {"offset", plan["arena"]}});
    plan["arena"] = plan["arena"].get<int64_t>() + bytes;
    fs::create_directories(to);
    write_file_atomic(to / "plan.json", plan.dump(), 0600);
    for (const char *name : {"kernels.so", "halide_runtime.so"}) fs::copy_file(CRYOLITE_HOST_KERNELS, to / name);
    result.bundle = std::make_shared<Bundle>(to);
    return result;
}

/// Trains the step on both; which products the library computed.
std::set<std::string> check_training(const json &args, const std::string &flags) {
    CAPTURE(args.dump());
    CAPTURE(flags);
    UseRecorder cuda;
    UseCublasLtRecorder lt;
    Scratch folder;
    const int accumulate = args.value("accumulate", 1);
    const double clip = args.value("clip", 0.0);
    const Trained expected = train_bundle(compile_gpt(args, flags, folder / "cpu"), accumulate, clip);
    OnRecorder made = on_recorder(folder / "cpu", folder / "cuda");
    const Trained got = train_bundle(std::move(made.bundle), accumulate, clip, "cuda");
    for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
    CHECK(cuda.recorder.count("cuGraphLaunch") > 0);
    REQUIRE(got.losses.size() == expected.losses.size());
    for (size_t s = 0; s < got.losses.size(); s++)
        CHECK(std::abs(got.losses[s] - expected.losses[s]) < 1e-5 * expected.losses[s]);
    CHECK(got.losses.front() != got.losses.back());
    REQUIRE(got.weights.size() == expected.weights.size());
    double worst = 0;
    for (size_t w = 0; w < got.weights.size(); w++)
        for (size_t i = 0; i < got.weights[w].size(); i++)
            worst = std::max(worst, std::abs(double(got.weights[w][i]) - expected.weights[w][i]));
    CHECK(worst < 2e-3);  // Adam divides small gradients by their own size: a fifth of a step
    return made.products;
}

}  // namespace

TEST_CASE("cublaslt: losses and weights of whole steps are the CPU's") {
    json args = {{"layers", 2}, {"heads", 2}, {"width", 32}, {"context", 13}, {"batch", 2}, {"vocab", 19}};
    std::set<std::string> products = check_training(args, "--update separate");
    args["width"] = 22, args["clip"] = 0.7, args["accumulate"] = 2;
    products.merge(check_training(args, "--update separate"));
    args = {{"layers", 1}, {"heads", 2}, {"width", 24}, {"context", 8}, {"batch", 2}, {"vocab", 19}};
    products.merge(check_training(args, "--lines 's.layout(h.0.mlp.c_fc.weight, row_major()); "
                                        "s.layout(h.0.mlp.c_proj.weight, row_major());'"));
    std::string all;
    for (const std::string &p : products) all += p + "; ";
    CAPTURE(all);
    for (const char *words :
         {"panels y bias", "panels y bias gelu_tanh", "panels y bias, add", "panels dx", "panels dx d_gelu_tanh",
          "panels dW", "panels dW accumulate", "rows y bias", "rows dx", "rows dW"}) {
        CAPTURE(words);
        CHECK(products.count(words) == 1);
    }
}

}  // namespace cryolite::test
