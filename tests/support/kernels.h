#pragma once
// Runs a kernel of a step by itself, with or without its loop schedule.

#include <cmath>
#include <cstring>
#include <deque>
#include <set>

#include "tests/support/step.h"

namespace cryolite::test {

class KernelRun {
public:
    KernelRun(const StepProgram &p, int kernel, const Machine &m)
        : p(p), kernel(p.kernels[kernel]), m(m) {}

    /// The farthest that an element of an output lies from that of the unscheduled kernel, relative
    /// to the largest of its buffer. Builds Funcs: in a child.
    double distance(std::string &loops) const {
        auto plain = run(false, loops), fast = run(true, loops);
        double worst = 0;
        for (size_t k = 0; k < plain.size(); k++) {
            double largest = 1e-30;
            for (float x : plain[k]) largest = std::max<double>(largest, std::abs(x));
            for (size_t i = 0; i < plain[k].size(); i++) {
                double d = std::abs(double(plain[k][i]) - fast[k][i]) / largest;
                if (!(d <= worst)) worst = std::isfinite(d) ? d : 1e30;
            }
        }
        return worst;
    }

private:
    const StepProgram &p;
    const Kernel &kernel;
    const Machine &m;

    using Values = std::vector<std::vector<float>>;

    /// Memory of an argument between two guards. A tile may read past the end, never use or write
    /// it.
    struct Memory {
        static constexpr int64_t guard = 256;
        std::vector<uint8_t> bytes;
        uint8_t *data;
        int64_t size;

        explicit Memory(int64_t size) : bytes(size_t(size + 2 * guard + 64)), size(size) {
            data = reinterpret_cast<uint8_t *>((uintptr_t(bytes.data()) + guard + 63) / 64 * 64);
            float poison = NAN;
            for (int64_t i = 0; i < guard; i += 4)
                std::memcpy(data - guard + i, &poison, 4), std::memcpy(data + size + i, &poison, 4);
        }
        bool whole() const {
            float poison = NAN;
            for (int64_t i = 0; i < guard; i += 4)
                if (std::memcmp(data - guard + i, &poison, 4) ||
                    std::memcmp(data + size + i, &poison, 4))
                    return false;
            return true;
        }
    };

    /// The unscheduled kernel with Halide's checks on, the scheduled one as it is compiled: with
    /// none.
    Values run(bool scheduled, std::string &loops) const {
        BuiltKernel built = build_kernel(p, kernel, m, scheduled);
        if (scheduled) loops = built.loops;
        // Left inlined, a chain of sums would take the product of their lengths.
        else
            for (Func &f : built.group.funcs())
                if (f.has_update_definition() || f.dimensions() == 0) f.compute_root();
        Halide::Target target = Halide::get_jit_target_from_environment();
        if (scheduled)
            target.set_features({Halide::Target::NoAsserts, Halide::Target::NoBoundsQuery});
        Halide::Callable call = built.pipeline.compile_to_callable(built.inputs, target);
        std::deque<Memory> memory;
        std::vector<Halide::Runtime::Buffer<>> buffers;
        for (const KernelArgument &a : built.arguments) {
            memory.emplace_back(Shape(a.extents).size() * a.type.bytes());
            buffers.emplace_back(a.type, memory.back().data, a.extents);
            fill(a, buffers.back());
        }
        Halide::JITUserContext context, *c = &context;
        std::vector<const void *> argv = {&c};
        for (auto &b : buffers) argv.push_back(b.raw_buffer());
        if (call.call_argv_fast(argv.size(), argv.data()) != 0) fail("'{}' failed", kernel.name);
        for (const Memory &block : memory)
            if (!block.whole()) fail("'{}' writes past the end of a buffer", kernel.name);
        Values outputs;
        for (size_t k = 0; k < buffers.size(); k++) {
            if (!built.arguments[k].written) continue;
            auto *begin = reinterpret_cast<float *>(buffers[k].data());
            outputs.emplace_back(begin, begin + buffers[k].number_of_elements());
        }
        return outputs;
    }

    static double random(uint64_t i) {
        uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
    void fill(const KernelArgument &a, Halide::Runtime::Buffer<> &b) const {
        const Buffer &source = p.buffers[a.buffer];
        const Layout &layout = source.layout;
        int64_t n = int64_t(b.number_of_elements());
        for (int64_t i = 0; i < n; i++) {
            double u = random(uint64_t(i + 7919 * a.buffer));
            if (a.type.is_int())
                reinterpret_cast<int32_t *>(b.data())[i] = int(u * 7);  // a row of any table
            else if (source.role == Role::scalars)
                reinterpret_cast<double *>(b.data())[i] = scalar(i);
            else
                reinterpret_cast<float *>(b.data())[i] =
                    padding(source, layout, i, n) ? 0 : float(value(source, u));
        }
    }
    static double value(const Buffer &b, double u) {
        bool positive = b.role == Role::state || b.role == Role::norms || b.role == Role::scale;
        return positive ? u + 0.1 : 2 * u - 1;
    }
    double scalar(int64_t i) const {
        return p.scalar_names[size_t(i)] == "step"   ? 3
               : p.scalar_names[size_t(i)] == "clip" ? 1
                                                     : p.scalar_values[size_t(i)];
    }
    static bool padding(const Buffer &b, const Layout &l, int64_t i, int64_t n) {
        if (!l.padded(b.shape) || n != b.storage().size()) return false;
        int64_t blocks = b.storage()[b.storage().rank() - 1];
        return i / (n / blocks) * l.panel + i % l.panel >= b.shape[l.dim];
    }
};

/// Checks every distinct kernel of a step against its unscheduled self; those that this process has
/// checked before are not checked again.
template <typename M>
void check_kernels(const Compiled<M> &c, double tolerance = 3e-5) {
    static std::set<std::string> seen;
    std::vector<std::string> keys = c.keys();
    std::vector<int> list;
    for (int k = 0; k < int(keys.size()); k++)
        if (seen.insert(keys[k]).second) list.push_back(k);
    run_children(
        int(list.size()), 2, 300,
        [&](int i) {
            std::string loops;
            double d = KernelRun(c.program, list[i], c.machine).distance(loops);
            return fmt::format("{} {}", d, loops);
        },
        [&](int i, const ChildResult &r) {
            INFO(c.program.kernels[list[i]].name);
            INFO(r.output);
            INFO(r.error);
            CHECK(r.error == "");
            CHECK(std::atof(r.output.c_str()) < tolerance);
        });
}

}  // namespace cryolite::test
