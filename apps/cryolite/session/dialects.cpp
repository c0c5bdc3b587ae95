// --dialect auto: which dialect computes each product, as measured once on this machine.

#include "apps/cryolite/session/dialects.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "client/programs.h"
#include "dialects/dialect.h"
#include "runtime/cache/tuning.h"
#include "runtime/device/make_device.h"
#include "runtime/io/error.h"
#include "runtime/system/rng.h"

namespace cryolite {

namespace {

constexpr double worth_it = 1.03;  // a smaller difference may be an error of the measurement

/// Times a kernel of a plan, alone and on arrays of its own, as Halide and as another dialect compute it.
class Trial {
public:
    Trial(const Bundle &bundle, int kernel, const PlanKernel::Dialect &d, const Dialect &dialect, Device &device)
        : device_(device), context_(device.context()) {
        const PlanKernel &k = bundle.plan.kernels[size_t(kernel)];
        compiled_argv_ = {&context_};
        std::vector<void *> addresses;
        for (const PlanArgument &a : k.args) {
            int64_t n = 1;
            auto &dims = dimensions_.emplace_back();
            for (int e : a.extents) dims.emplace_back(0, e, int(n)), n *= e;
            std::vector<float> values(static_cast<size_t>(n));
            for (size_t i = 0; i < values.size(); i++) values[i] = float(i % 251) / 251 - 0.5f;
            memory_.push_back(device.allocate(values.size() * sizeof(float) + 64, k.layer));
            device.upload(memory_.back(), 0, values.data(), values.size() * sizeof(float));
            halide_buffer_t &b = arguments_.emplace_back();
            b.type = halide_type_t(halide_type_float, 32);
            b.dimensions = int(dims.size()), b.dim = dims.data();
            device.bind(b, memory_.back(), 0);
            addresses.push_back(device.host_address(b));
            compiled_argv_.push_back(&b);
        }
        ready_ = dialect.prepare(d.product, {addresses});
        ready_argv_ = {&context_, ready_.get()};
        compiled_ = bundle.kernel(kernel);
    }
    ~Trial() {
        for (DeviceMemory &m : memory_) device_.release(m);
    }

    struct Seconds {
        double halide = 1e30, other = 1e30;
    };
    /// The best times of several runs. Both run in turn, so that other load on the machine meets both.
    Seconds run() {
        constexpr int least = 7, most = 60;
        constexpr double enough = 0.4;
        Seconds best;
        double spent = 0;
        for (int round = 0; round < most && (round < least || spent < enough); round++) {
            const double h = once(compiled_, compiled_argv_), o = once(run_ready, ready_argv_);
            spent += h + o;
            if (round == 0) continue;  // it touches memory for the first time
            best.halide = std::min(best.halide, h), best.other = std::min(best.other, o);
        }
        return best;
    }

private:
    Device &device_;
    void *context_;
    std::deque<DeviceMemory> memory_;
    std::deque<halide_buffer_t> arguments_;
    std::deque<std::vector<halide_dimension_t>> dimensions_;
    std::vector<void *> compiled_argv_, ready_argv_;
    std::unique_ptr<Ready> ready_;
    Bundle::Function compiled_;

    double once(Bundle::Function function, std::vector<void *> &argv) {
        const KernelCall call{function, argv.data()};
        const auto start = std::chrono::steady_clock::now();
        const CallFailure failure = device_.run({&call, 1});
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (failure.call >= 0)
            fail("a kernel failed while it was timed, with code {}: {}", failure.code, device_.last_error());
        return seconds;
    }
};

}  // namespace

std::map<std::string, DialectChoice> faster_dialects(const Bundle &bundle, const Cache &cache, int threads,
                                                     Progress &progress) {
    std::map<std::string, DialectChoice> choices;
    std::unique_ptr<Tuning> tuning;  // opened only if it is needed
    std::unique_ptr<Device> device;
    int measured = 0, all = 0;
    for (const PlanKernel &k : bundle.plan.kernels) all += !k.symbol.empty() && !k.dialects.empty();
    for (int i = 0; i < int(bundle.plan.kernels.size()); i++) {
        const PlanKernel &k = bundle.plan.kernels[size_t(i)];
        if (k.symbol.empty()) continue;
        double best = 0;
        for (const PlanKernel::Dialect &d : k.dialects) {
            const Dialect *dialect = load_dialect(d.name);
            DialectChoice &choice = choices.try_emplace(k.symbol, DialectChoice{"halide", ""}).first->second;
            if (!dialect) {
                choice.why += fmt::format("{}{} is not built here: {}", choice.why.empty() ? "" : "; ", d.name,
                                          how_to_get(d.name));
                continue;
            }
            if (!tuning) tuning = std::make_unique<Tuning>(cache.folder());
            const std::string operation = nlohmann::json(d.product).dump();
            const TuningKey halide{"cpu", machine_id(), threads, operation, "halide", k.symbol},
                other{"cpu", machine_id(), threads, operation, d.name, dialect->version()};
            std::optional<double> h = tuning->seconds(halide), o = tuning->seconds(other);
            if (!h || !o) {
                progress.busy(fmt::format("measuring dialects: product {} of {}", ++measured, all));
                if (!device) device = make_device("cpu", threads);
                const Trial::Seconds s = Trial(bundle, i, d, *dialect, *device).run();
                tuning->remember(halide, s.halide), tuning->remember(other, s.other);
                h = s.halide, o = s.other;
            }
            choice.why += fmt::format("{}measured: halide {:.3f} ms, {} {:.3f} ms", choice.why.empty() ? "" : "; ",
                                      1e3 * *h, d.name, 1e3 * *o);
            if (best == 0) best = *h / worth_it;
            if (*o < best) best = *o, choice.dialect = d.name;
        }
    }
    if (measured)
        progress.say(
            fmt::format("dialects: {} products measured, kept in {}", measured, Tuning::file(cache.folder()).string()));
    return choices;
}

}  // namespace cryolite
