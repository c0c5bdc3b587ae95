#include "generators/codegen/compare.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "generators/codegen/child.h"

namespace cryolite::compiler {

namespace {

using Halide::Target;

/// Allowed differences, relative to an array's largest element. Correct results may differ by the order of additions;
/// wrong loops miss whole terms. A sum that is rounded to 16 bits and read again may round to the next number.
constexpr double tolerance = 2e-4, tolerance_of_halves = 5e-3, tolerance_of_extremes = 2e-2;
constexpr int64_t most_bytes = int64_t(512) << 20;

/// Memory of an argument between two guards, between two pages that crash whoever reads them. A tile may read a little
/// past the end, but neither use what it reads nor write. The array lies next to the first page or to the last one.
struct Memory {
    static constexpr int64_t guard = 256;
    static constexpr uint32_t poison = std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
    uint8_t *pages, *data;
    int64_t size, mapped;

    Memory(int64_t size, bool at_end) : size(size) {
        const int64_t page = sysconf(_SC_PAGESIZE), inner = (size + 2 * guard + 64 + page - 1) / page * page;
        mapped = inner + 2 * page;
        void *map = mmap(nullptr, size_t(mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) fail("no memory for an array of {} bytes", size);
        pages = static_cast<uint8_t *>(map);
        mprotect(pages, size_t(page), PROT_NONE), mprotect(pages + page + inner, size_t(page), PROT_NONE);
        data = pages + page + (at_end ? (inner - guard - size) / 64 * 64 : guard);
        for (int64_t i = 0; i < guard; i += 4)
            std::memcpy(data - guard + i, &poison, 4), std::memcpy(data + size + i, &poison, 4);
    }
    ~Memory() { munmap(pages, size_t(mapped)); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    bool whole() const {
        for (int64_t i = 0; i < guard; i += 4)
            if (std::memcmp(data - guard + i, &poison, 4) != 0 || std::memcmp(data + size + i, &poison, 4) != 0)
                return false;
        return true;
    }
};

double random(uint64_t i) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/// Fills an argument before the kernel runs.
class Filler {
public:
    Filler(const StepProgram &p, const KernelArgument &a, Inputs inputs)
        : p(p), source(p.values[a.value]), a(a), n(Shape(a.extents).size()), inputs(inputs) {
        const bool of_layer = source.parameter && p.parameters[source.parameter].state;  // a variance, say
        positive = inputs == Inputs::positive || of_layer || source.role == ir::Role::state ||
                   source.role == ir::Role::norms || source.role == ir::Role::scale ||
                   source.role == ir::Role::loss_scaler;
    }
    void fill(uint8_t *data) const {
        for (int64_t i = 0; i < n; i++) {
            if (source.role == ir::Role::count)
                put(data, i, int32_t(3));
            else if (p.graph.is_mode(a.value.index))
                put(data, i, int32_t(1));  // in training
            else if (const std::vector<float> &known = constant(); !known.empty())
                put(data, i, known[size_t(i)]);
            else if (a.type.is_int())
                put(data, i, int32_t(random(seed(i)) * 7));  // a row of any table
            else if (a.type.is_bfloat())
                put(data, i, padding(i) ? uint16_t(0) : half(float(value(i))));
            else if (a.type == Halide::Float(16))
                put(data, i, padding(i) ? uint16_t(0) : Halide::float16_t(value(i)).to_bits());
            else if (a.type == Halide::UInt(16))
                put(data, i, padding(i) ? uint16_t(0) : uint16_t(seed(i) * 40503));
            else if (a.type.bits() == 64)
                put(data, i, source.role == ir::Role::scalars ? scalar(i) : value(i));
            else
                put(data, i, padding(i) ? 0.0f : float(value(i)));
        }
    }

private:
    const StepProgram &p;
    const ir::Value &source;
    const KernelArgument &a;
    const int64_t n;
    const Inputs inputs;
    bool positive;

    const std::vector<float> &constant() const {
        static const std::vector<float> none;
        const auto &values = p.graph.values();
        return a.value.index < int(values.size()) ? values[size_t(a.value.index)].constant : none;
    }
    template <typename T> static void put(uint8_t *data, int64_t i, T x) {
        std::memcpy(data + i * sizeof x, &x, sizeof x);
    }
    uint64_t seed(int64_t i) const { return uint64_t(i + 7919 * a.value.index); }
    static uint16_t half(float x) { return uint16_t(std::bit_cast<uint32_t>(x) >> 16); }
    /// Every other value is a multiple of 1/8, so that values that a kernel compares are sometimes equal.
    double value(int64_t i) const {
        double u = random(seed(i));
        if (i % 2) u = std::round(u * 8) / 8;
        const double x = positive ? u + 0.1 : 2 * u - 1;
        return inputs == Inputs::large               ? 8 * x
               : inputs == Inputs::small             ? x / 256
               : inputs == Inputs::tiny && i % 4 < 2 ? 1e-39 * x
                                                     : x;
    }
    double scalar(int64_t i) const {
        const std::string &name = p.scalar_names[size_t(i)];
        return name == "step" ? 3 : name == "clip" ? 1 : p.scalar_values[size_t(i)];
    }
    bool padding(int64_t i) const {
        const Layout &l = source.layout;
        if (!l.padded(source.shape) || n != source.storage().size()) return false;
        int64_t blocks = source.storage()[source.storage().rank() - 1];
        return i / (n / blocks) * l.panel + i % l.panel >= source.shape[l.dim];
    }
};

int64_t bytes_of(const KernelArgument &a) { return Shape(a.extents).size() * a.type.bytes(); }

double element(const Halide::Type &t, const char *data, int64_t i) {
    auto as = [&](auto x) { return std::memcpy(&x, data + i * int64_t(sizeof x), sizeof x), double(x); };
    if (t == Halide::Float(32)) return as(0.0f);
    if (t == Halide::Float(64)) return as(0.0);
    if (t == Halide::Int(32)) return as(int32_t(0));
    uint16_t bits = 0;
    std::memcpy(&bits, data + i * int64_t(sizeof bits), sizeof bits);
    if (t.is_bfloat()) return std::bit_cast<float>(uint32_t(bits) << 16);
    if (t == Halide::Float(16)) return double(Halide::float16_t::make_from_bits(bits));
    fail("arrays of this type cannot be compared; add it to generators/codegen/compare.cpp");
}

/// For kernels that are run at once. `checked`: they check the extents of their arguments.
Target jit_target(Target t, bool checked) {
    t.set_feature(Target::JIT);
    for (auto f : {Target::NoRuntime, Target::UserContext}) t.set_feature(f, false);
    for (auto f : {Target::NoAsserts, Target::NoBoundsQuery}) t.set_feature(f, !checked);
    return t;
}

/// Whether kernels for the device of a target run here.
bool has_device(const Target &t) {
    bool ran = false;
    run_children(
        1, 1, 60,
        [&](int) {
            Halide::Func f("f");
            Halide::Var i("i"), block("block"), thread("thread");
            f(i) = i;
            f.gpu_tile(i, block, thread, 8);
            Halide::Buffer<int> out = f.realize({8}, t);
            out.copy_to_host();
            return std::to_string(out(7));
        },
        [&](int, const ChildResult &r) { ran = r.output == "7"; });
    return ran;
}

/// Whether this machine has all that a target's code may use.
bool runs_here(Target t) {
    Target host = Halide::get_host_target();
    if (t.has_gpu_feature()) {
        if (!has_device(jit_target(t, true))) return false;
        for (auto f :
             {Target::OpenCL, Target::CLDoubles, Target::CUDA, Target::CUDACapability30, Target::CUDACapability32,
              Target::CUDACapability35, Target::CUDACapability50, Target::CUDACapability61, Target::CUDACapability70,
              Target::CUDACapability75, Target::CUDACapability80, Target::CUDACapability86})
            t.set_feature(f, false);
    }
    if (t.os != host.os || t.arch != host.arch || t.bits != host.bits) return false;
    for (auto f : {Target::NoRuntime, Target::UserContext, Target::NoAsserts, Target::NoBoundsQuery})
        host.set_feature(f);
    for (int f = 0; f < Target::FeatureEnd; f++)
        if (t.has_feature(Target::Feature(f)) && !host.has_feature(Target::Feature(f))) return false;
    return true;
}

bool has_halves(const BuiltKernel &built) {
    for (const KernelArgument &a : built.arguments)
        if (a.type.is_bfloat() || a.type == Halide::Float(16)) return true;
    return false;
}

/// Whether some array has no finite element. A comparison with such an array says nothing.
bool hollow(const BuiltKernel &built, const std::string &outputs) {
    const char *at = outputs.data();
    for (const KernelArgument &a : built.arguments) {
        if (!a.written) continue;
        if (a.type == Halide::UInt(16)) {
            at += bytes_of(a);
            continue;
        }
        bool finite = false;
        for (int64_t i = 0; i < Shape(a.extents).size() && !finite; i++) finite = std::isfinite(element(a.type, at, i));
        if (!finite) return true;
        at += bytes_of(a);
    }
    return false;
}

}  // namespace

KernelTrial::KernelTrial(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built, const Machine &m,
                         bool checked)
    : p(p), k(k), arguments(built.arguments) {
    Halide::Pipeline pipeline = built.pipeline;
    callable = pipeline.compile_to_callable(built.inputs, jit_target(m.target, checked));
}

KernelTrial KernelTrial::unscheduled(const StepProgram &p, const ir::Kernel &k, const Machine &m) {
    BuiltKernel built = build_kernel(p, k, m, {.scheduled = false});
    // If they stayed inlined, the time of a chain of sums would be the product of their lengths.
    for (Func &f : built.group.funcs())
        if (f.has_update_definition() || f.dimensions() == 0) f.compute_root();
    return KernelTrial(p, k, built, m, true);
}

std::string KernelTrial::run(Inputs inputs, bool at_end) {
    return run(
        [this](const std::vector<void *> &addresses) {
            std::vector<Halide::Runtime::Buffer<>> buffers;
            for (size_t i = 0; i < arguments.size(); i++)
                buffers.emplace_back(arguments[i].type, addresses[i], arguments[i].extents).set_host_dirty();
            Halide::JITUserContext context, *c = &context;
            std::vector<const void *> argv = {&c};
            for (auto &b : buffers) argv.push_back(b.raw_buffer());
            if (callable.call_argv_fast(argv.size(), argv.data()) != 0) fail("'{}' failed", k.name);
            for (auto &b : buffers)
                if (b.copy_to_host() != 0) fail("'{}': its results cannot be copied from the device", k.name);
        },
        inputs, at_end);
}

std::string KernelTrial::run(const std::function<void(const std::vector<void *> &)> &instead, Inputs inputs,
                             bool at_end) {
    std::deque<Memory> memory;
    std::vector<void *> addresses;
    for (const KernelArgument &a : arguments) {
        Memory &block = memory.emplace_back(bytes_of(a), at_end);
        Filler(p, a, inputs).fill(block.data);
        addresses.push_back(block.data);
    }
    const auto replaced = std::ranges::find(arguments, true, &KernelArgument::replaceable);
    if (replaced != arguments.end()) addresses.back() = addresses[size_t(replaced - arguments.begin())];
    instead(addresses);
    std::string outputs;
    for (size_t i = 0; i < memory.size(); i++) {
        if (!memory[i].whole()) fail("'{}' writes past the end of a buffer", k.name);
        if (arguments[i].written) outputs.append(static_cast<char *>(addresses[i]), size_t(memory[i].size));
    }
    return outputs;
}

double distance(const BuiltKernel &built, const std::string &expected, const std::string &got) {
    if (expected.size() != got.size()) fail("{} bytes were written, expected {}", got.size(), expected.size());
    double worst = 0;
    const char *e = expected.data(), *g = got.data();
    for (const KernelArgument &a : built.arguments) {
        if (!a.written) continue;
        double largest = 1e-30;
        int64_t n = Shape(a.extents).size();
        if (a.type == Halide::UInt(16)) {  // low halves of weights: far below the tolerance of the high halves
            e += bytes_of(a), g += bytes_of(a);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            if (double x = std::abs(element(a.type, e, i)); std::isfinite(x)) largest = std::max(largest, x);
        for (int64_t i = 0; i < n; i++) {
            double x = element(a.type, e, i), y = element(a.type, g, i);
            if (x == y || (std::isnan(x) && std::isnan(y))) continue;
            double d = std::abs(x - y) / largest;
            worst = std::max(worst, std::isfinite(d) ? d : 1e30);
        }
        e += bytes_of(a), g += bytes_of(a);
    }
    return worst;
}

Expected unscheduled_outputs(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built, const Machine &m,
                             int seconds, bool all) {
    Expected e;
    if (!runs_here(m.target)) e.hindrance = fmt::format("this machine cannot run code for {}", m.target.to_string());
    int64_t bytes = 0;
    for (const KernelArgument &a : built.arguments) bytes += bytes_of(a);
    if (bytes > most_bytes)
        e.hindrance = fmt::format("its arrays take {} MiB, more than {}", bytes >> 20, most_bytes >> 20);
    if (!e.hindrance.empty()) return e;
    share_jit_runtime();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    for (Inputs inputs : {Inputs::random, Inputs::positive, Inputs::small, Inputs::large, Inputs::tiny}) {
        if (!all && (!e.outputs.empty() || inputs == Inputs::small)) break;
        const auto left = std::chrono::ceil<std::chrono::seconds>(end - std::chrono::steady_clock::now());
        if (left.count() < 1) break;
        ChildResult expected;
        run_children(
            1, 1, int(left.count()), [&](int) { return KernelTrial::unscheduled(p, k, m).run(inputs); },
            [&](int, const ChildResult &r) { expected = r; });
        if (expected.late) {
            if (e.outputs.empty()) e.hindrance = fmt::format("it takes more than {} s", seconds);
            return e;
        }
        if (!expected.error.empty()) fail("the unscheduled kernel fails: {}", expected.error);
        if (!hollow(built, expected.output))  // hollow: roots or logarithms of negative numbers
            e.outputs.emplace_back(inputs, expected.output);
    }
    if (e.outputs.empty()) e.hindrance = "on random inputs its result is not finite";
    return e;
}

void hold_against(const Expected &expected, const BuiltKernel &built, KernelTrial &scheduled) {
    for (const auto &[inputs, outputs] : expected.outputs) {
        const std::string got = scheduled.run(inputs);
        // Where numbers have very different sizes, rounding is a larger part of a result.
        const bool usual = inputs != Inputs::large && inputs != Inputs::tiny;
        const double d = distance(built, outputs, got);
        const double allowed = !usual ? tolerance_of_extremes : has_halves(built) ? tolerance_of_halves : tolerance;
        if (!(d <= allowed)) fail("its result is off by {:.2g} of the largest element, tolerance {}", d, allowed);
        if (scheduled.run(inputs, true) != got) fail("its result is not the same when it is run again");
    }
}

std::string compare_with_unscheduled(const StepProgram &p, const ir::Kernel &k, const BuiltKernel &built,
                                     const Machine &m, int seconds) {
    const Expected expected = unscheduled_outputs(p, k, built, m, seconds, false);
    if (!expected.hindrance.empty()) return expected.hindrance;
    KernelTrial scheduled(p, k, built, m, false);
    hold_against(expected, built, scheduled);
    return "";
}

}  // namespace cryolite::compiler
