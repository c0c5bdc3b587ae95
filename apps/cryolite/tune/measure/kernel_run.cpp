#include "apps/cryolite/tune/measure/kernel_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/io/error.h"
#include "runtime/system/rng.h"

namespace cryolite {

namespace {

constexpr size_t guard = 512;  ///< bytes on either side of an array, which a kernel must not write
constexpr unsigned char untouched = 0xa5;

int bits_of(const std::string &type) { return type.ends_with("16") ? 16 : type.ends_with("64") ? 64 : 32; }

halide_type_t halide_type(const std::string &type) {
    const auto code = type == "int32"      ? halide_type_int
                      : type == "uint16"   ? halide_type_uint
                      : type == "bfloat16" ? halide_type_bfloat
                                           : halide_type_float;
    return {code, uint8_t(bits_of(type)), 1};
}

double element(const std::string &type, const char *data, size_t i) {
    auto as = [&](auto x) { return std::memcpy(&x, data + i * sizeof x, sizeof x), x; };
    if (type == "float32") return double(as(0.0f));
    if (type == "float64") return as(0.0);
    if (type == "int32") return double(as(int32_t(0)));
    const uint32_t high = uint32_t(as(uint16_t(0))) << 16;
    float x = 0;
    std::memcpy(&x, &high, sizeof x);
    return type == "bfloat16" ? double(x) : 0;  // low halves are far below the difference allowed to high ones
}

}  // namespace

LoadedKernel::LoadedKernel(const fs::path &folder, const std::string &symbol)
    : library_(OpenFile::at(fs::absolute(folder) / "kernels.so"), "the candidate") {
    function_ = reinterpret_cast<Bundle::Function>(library_.symbol(symbol + "_argv"));
    if (!function_) fail("{} has no kernel {}", folder.string(), symbol);
}

KernelRun::KernelRun(const Plan &plan, const std::string &symbol, Device &device) : plan_(plan), device_(device) {
    const PlanCall *call = nullptr;
    for (const auto &[name, calls] : plan.plans)
        for (const PlanCall &c : calls)
            if (!call && c.kernel >= 0 && plan.kernels[size_t(c.kernel)].symbol == symbol) call = &c;
    if (!call) fail("the plan has no call of {}", symbol);
    const PlanKernel &k = plan.kernels[size_t(call->kernel)];
    for (size_t i = 0; i < k.args.size(); i++) {
        Argument &a = arguments_.emplace_back();
        a.buffer = &plan.buffers[size_t(call->args[i].buffer)], a.shape = &k.args[i];
        a.elements = 1;
        for (int e : a.shape->extents) {
            a.dimensions.emplace_back(0, e, int(a.elements));
            a.elements *= size_t(e);
        }
        a.view.type = halide_type(a.shape->type);
        a.view.dimensions = int(a.dimensions.size()), a.view.dim = a.dimensions.data();
        a.bytes = a.elements * size_t(bits_of(a.shape->type) / 8);
        a.staged.resize(a.bytes + 2 * guard, untouched);
        a.memory = device.allocate(a.staged.size(), a.buffer->name);
        device.bind(a.view, a.memory, guard);
    }
}

KernelRun::~KernelRun() {
    for (Argument &a : arguments_) device_.release(a.memory);
}

void KernelRun::fill() {
    uint64_t seed = 0;
    for (Argument &a : arguments_) fill(a, ++seed);
}

void KernelRun::fill(Argument &a, uint64_t seed) {
    std::ranges::fill(a.staged, untouched);
    unsigned char *data = a.staged.data() + guard;
    const Rng rng(seed, "tune");
    const Role role = a.buffer->role;
    const std::string &type = a.shape->type;
    const bool positive =
        role == Role::state || role == Role::joint || role == Role::norms || role == Role::scale || a.buffer->of_layer;
    auto put = [&](size_t i, auto x) { std::memcpy(data + i * sizeof x, &x, sizeof x); };
    for (size_t i = 0; i < a.elements; i++) {
        const double u = rng.uniform(i), x = positive ? u + 0.1 : 2 * u - 1;
        if (i < a.buffer->constant.size() && type == "float32") {
            put(i, a.buffer->constant[i]);
        } else if (type == "float32") {
            put(i, float(x));
        } else if (type == "float64") {
            const bool scalar = role == Role::scalars && i < plan_.scalar_values.size();
            const bool rate = scalar && (plan_.scalar_names[i] == "step" || plan_.scalar_names[i] == "clip");
            put(i, rate ? 1.0 : scalar ? plan_.scalar_values[i] : x);
        } else if (type == "int32") {
            put(i, role == Role::count ? int32_t(3) : int32_t(u * 2));  // a row that every table has
        } else {
            const auto single = float(x);
            uint32_t bits = 0;
            std::memcpy(&bits, &single, sizeof bits);
            put(i, uint16_t(bits >> 16));
        }
    }
    device_.upload(a.memory, 0, a.staged.data(), a.staged.size());
}

std::vector<void *> KernelRun::arguments(void **context) {
    std::vector<void *> argv = {context};
    for (Argument &a : arguments_) argv.push_back(&a.view);
    return argv;
}

void KernelRun::call(Bundle::Function kernel) {
    void *context = device_.context();
    std::vector<void *> argv = arguments(&context);
    const KernelCall one{kernel, argv.data()};
    const CallFailure failure = device_.run({&one, 1});
    if (failure.call >= 0) fail("it fails with code {}: {}", failure.code, device_.last_error());
}

std::string KernelRun::outputs(Bundle::Function kernel) {
    fill();
    call(kernel);
    return written();
}

std::string KernelRun::outputs(Bundle::Function kernel, SerialOrder order) {
    fill();
    void *context = nullptr;  // without a device, loops are not parallel
    order_serial_loops(order);
    const int code = kernel(arguments(&context).data());
    order_serial_loops(SerialOrder::forwards);
    if (code) fail("it fails with code {}", code);
    return written();
}

std::string KernelRun::written() {
    for (Argument &a : arguments_) device_.download(a.staged.data(), a.memory, 0, a.staged.size());
    device_.finish();
    std::string bytes;
    for (const Argument &a : arguments_) {
        const unsigned char *data = a.staged.data() + guard;
        for (size_t i = 0; i < guard; i++)
            if (a.staged[i] != untouched || data[a.bytes + i] != untouched)
                fail("it writes outside of the array of {}", a.buffer->name);
        if (a.shape->written) bytes.append(reinterpret_cast<const char *>(data), a.bytes);
    }
    return bytes;
}

double KernelRun::seconds(Bundle::Function kernel, int times) {
    device_.finish();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; i++) call(kernel);
    device_.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double KernelRun::distance(const std::string &expected, const std::string &got) const {
    double worst = 0;
    size_t at = 0;
    for (const Argument &a : arguments_) {
        if (!a.shape->written) continue;
        const char *e = expected.data() + at, *g = got.data() + at;
        double largest = 1e-30;
        for (size_t i = 0; i < a.elements; i++)
            if (const double x = std::abs(element(a.shape->type, e, i)); std::isfinite(x))
                largest = std::max(largest, x);
        for (size_t i = 0; i < a.elements; i++) {
            const double x = element(a.shape->type, e, i), y = element(a.shape->type, g, i);
            if (x == y || (std::isnan(x) && std::isnan(y))) continue;
            const double d = std::abs(x - y) / largest;
            worst = std::max(worst, std::isfinite(d) ? d : INFINITY);
        }
        at += a.bytes;
    }
    return worst;
}

}  // namespace cryolite
