#pragma once
// A step of the CPU or of OpenCL as one for the device cuda against the recording driver: its kernels are functions of
// the host, and its plan is changed to be the GPU's.

#include <cstring>
#include <deque>
#include <set>

#include "dialects/dialect.h"
#include "runtime/plan/element_type.h"
#include "tests/cuda/use_recorder.h"
#include "tests/parity/case.h"

namespace cryolite::test {

/// A kernel of the CPU or of OpenCL as a function of the recorder, which knows addresses. For OpenCL its arrays are
/// copied there, and back what it writes.
inline std::function<void(const std::vector<const void *> &)> host_kernel(std::shared_ptr<Bundle> bundle, int number,
                                                                          std::shared_ptr<Device> device) {
    return [=](const std::vector<const void *> &values) {
        const bool here = bundle->plan.device == "cpu";
        const PlanKernel &k = bundle->plan.kernels[size_t(number)];
        std::deque<std::vector<halide_dimension_t>> dimensions;
        std::deque<halide_buffer_t> buffers;
        std::vector<DeviceMemory> copies;
        void *context = device->context();
        std::vector<void *> argv = {&context};
        auto address = [&](size_t a) {
            void *at = nullptr;
            return std::memcpy(&at, values.at(a), sizeof at), at;
        };
        for (size_t a = 0; a < k.args.size(); a++) {
            auto &dims = dimensions.emplace_back();
            int stride = 1;
            for (int e : k.args[a].extents) dims.emplace_back(0, e, stride), stride *= e;
            halide_buffer_t &b = buffers.emplace_back();
            b.type = halide_type_named(k.args[a].type);
            b.dimensions = int(dims.size()), b.dim = dims.data();
            DeviceMemory memory{address(a)};
            if (!here) {
                const size_t bytes = size_t(stride) * size_t(b.type.bytes());
                memory = copies.emplace_back(device->allocate(bytes, "an argument"));
                device->upload(memory, 0, address(a), bytes);
            }
            device->bind(b, memory, 0);
            argv.push_back(&b);
        }
        const int code = bundle->kernel(number)(argv.data());
        CAPTURE(k.layer);
        CHECK(code == 0);
        for (size_t a = 0; a < copies.size(); a++)
            if (k.args[a].written) device->download(address(a), copies[a], 0, copies[a].bytes);
        if (!here) device->finish();
        for (DeviceMemory &m : copies) device->release(m);
    };
}

struct OnRecorder {
    std::shared_ptr<Bundle> bundle;
    std::set<std::string> products;  ///< by the library: their forms and what follows them
};

/// The product that cuBLASLt is to compute in place of a kernel; null: it is Halide's.
using ProductOf = std::function<std::optional<Product>(int kernel)>;

/// The step of a bundle of the CPU or of OpenCL as a bundle for the recorder.
inline OnRecorder on_recorder(const fs::path &from, const fs::path &to, const ProductOf &product_of) {
    const auto known = std::make_shared<Bundle>(from);
    const std::shared_ptr<Device> device = make_device(known->plan.device, 1);
    CudaRecorder &recorder = CudaRecorder::get();
    const DialectLine &line = *find_dialect("cublaslt");
    json plan = json::parse(read_file(from / "plan.json"));
    plan["device"] = "cuda", plan["capability"] = 80;
    const int workspace = int(plan["buffers"].size());
    int64_t bytes = 0;
    OnRecorder result;
    for (int k = 0; k < int(plan["kernels"].size()); k++) {
        json &kernel = plan["kernels"][size_t(k)];
        recorder.host_kernels.push_back(int(known->plan.kernels[size_t(k)].args.size()));
        kernel.erase("dialects");
        if (const std::optional<Product> asked = product_of(k)) {
            const Product &p = *asked;
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
            recorder.kernels["host_kernel_" + std::to_string(k)] = host_kernel(known, k, device);
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

/// The same with the products of the CPU's plan, where cuBLASLt has them and they are asked for; `factors`, where
/// given, are what it multiplies instead of the plan's.
inline OnRecorder on_recorder(const fs::path &from, const fs::path &to, bool with_products = true,
                              const std::string &factors = "") {
    const Plan plan = load_plan(from / "plan.json");
    return on_recorder(from, to, [&](int k) -> std::optional<Product> {
        const PlanKernel::Dialect *other = plan.kernels[size_t(k)].dialect("onednn");
        if (!with_products || !other || !find_dialect("cublaslt")->why_not(other->product).empty()) return {};
        Product p = other->product;
        if (!factors.empty()) p.type = factors;
        return p;
    });
}

}  // namespace cryolite::test
