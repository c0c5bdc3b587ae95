#include "runtime/executor.h"

#include <chrono>

#include "runtime/error.h"

namespace cryolite {

namespace {

halide_type_t halide_type(const std::string &name) {
    size_t digits = name.find_first_of("0123456789");
    int bits = std::stoi(name.substr(digits));
    std::string kind = name.substr(0, digits);
    auto code = kind == "float"  ? halide_type_float
                : kind == "bfloat" ? halide_type_bfloat
                : kind == "int" ? halide_type_int
                                : halide_type_uint;
    return halide_type_t(code, uint8_t(bits));
}

}  // namespace

Executor::Executor(std::shared_ptr<const Bundle> bundle, Device &device)
    : bundle_(std::move(bundle)), device_(device) {
    allocate();
    resolve();
}

Executor::~Executor() {
    device_.release(arena_);
    for (DeviceMemory &m : memory_) device_.release(m);
}

void Executor::allocate() {
    const Plan &p = plan();
    arena_ = device_.allocate(size_t(p.arena) + 64, "activations");
    memory_.resize(p.buffers.size());
    for (size_t b = 0; b < p.buffers.size(); b++) {
        const PlanBuffer &buffer = p.buffers[b];
        if (buffer.role == "activation" || !buffer.stored) continue;
        memory_[b] = device_.allocate(size_t(buffer.bytes) + 64, buffer.role + " " + buffer.name);
    }
}

void Executor::place(int buffer, DeviceMemory &memory, size_t &offset) const {
    const PlanBuffer &b = plan().buffers.at(size_t(buffer));
    bool in_arena = b.role == "activation";
    if (in_arena ? b.offset < 0 : !b.stored) fail("'{}' is not stored in this plan", b.name);
    memory = in_arena ? arena_ : memory_[size_t(buffer)];
    offset = in_arena ? size_t(b.offset) : 0;
}

void Executor::resolve() {
    for (auto &[name, calls] : plan().plans) {
        Line &line = lines_[name];
        line.context = device_.context();
        for (const PlanCall &c : calls) {
            Line::Call &call = line.calls.emplace_back();
            call.function = bundle_->kernel(c.kernel);
            call.plan = &c;
            call.argv.push_back(&line.context);
            const PlanKernel &k = plan().kernels[size_t(c.kernel)];
            for (size_t i = 0; i < c.args.size(); i++) {
                auto &dims = call.dimensions.emplace_back();
                int stride = 1;
                for (int e : k.args[i].extents) dims.emplace_back(0, e, stride), stride *= e;
                halide_buffer_t &b = call.arguments.emplace_back();
                b = {};
                b.type = halide_type(k.args[i].type);
                b.dimensions = int(dims.size());
                b.dim = dims.data();
                DeviceMemory memory;
                size_t offset;
                place(c.args[i].buffer, memory, offset);
                device_.bind(b, memory, offset + size_t(c.args[i].offset) * b.type.bytes());
                call.argv.push_back(&b);
            }
        }
    }
}

void Executor::run(const Line &line, std::span<double> seconds) {
    using Clock = std::chrono::steady_clock;
    device_.run([&] {
        size_t i = 0;
        for (const Line::Call &c : line.calls) {
            auto start = seconds.empty() ? Clock::time_point() : Clock::now();
            if (int code = c.function(const_cast<void **>(c.argv.data())))
                fail("kernel '{}' failed with code {}: {}", c.plan->name, code,
                     device_.last_error());
            if (!seconds.empty()) {
                device_.finish();
                seconds[i++] += std::chrono::duration<double>(Clock::now() - start).count();
            }
        }
    });
}

DeviceMemory Executor::reach(int buffer, size_t bytes, size_t &offset) const {
    DeviceMemory memory;
    size_t at;
    place(buffer, memory, at);
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    if (offset + bytes > size_t(b.bytes))
        fail("'{}' has {} bytes, not the {} from {} that are moved", b.name, b.bytes, bytes, offset);
    offset += at;
    return memory;
}

void Executor::upload(int buffer, const void *from, size_t bytes, size_t offset) {
    DeviceMemory memory = reach(buffer, bytes, offset);
    device_.upload(memory, offset, from, bytes);
}

void Executor::download(void *to, int buffer, size_t bytes, size_t offset) {
    DeviceMemory memory = reach(buffer, bytes, offset);
    device_.download(to, memory, offset, bytes);
}

}  // namespace cryolite
