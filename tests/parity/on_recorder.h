#pragma once
// A step of the CPU as one for the device cuda against the recording driver: its kernels are functions of the host, and
// its plan is changed to be the GPU's.

#include <cstring>
#include <deque>
#include <set>

#include "dialects/dialect.h"
#include "tests/cuda/use_recorder.h"
#include "tests/parity/case.h"

namespace cryolite::test {

/// A kernel of the CPU as a function of the recorder, which knows addresses.
inline std::function<void(const std::vector<const void *> &)> host_kernel(std::shared_ptr<Bundle> cpu, int number,
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

/// The step of a bundle of the CPU as a bundle for the recorder: products by cuBLASLt, where it has them and they are
/// asked for; `factors`, where given, are what it multiplies instead of the plan's.
inline OnRecorder on_recorder(const fs::path &from, const fs::path &to, bool with_products = true,
                              const std::string &factors = "") {
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
        if (with_products && other && line.why_not(other->product).empty()) {
            Product p = other->product;
            if (!factors.empty()) p.type = factors;
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
    if (bytes > 0)
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

}  // namespace cryolite::test
