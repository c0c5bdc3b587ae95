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
    if (plan().device != device_.name())
        fail("the kernels were compiled for the device {}, not for {}: compile them with --device {}", plan().device,
             device_.name(), device_.name());
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
        order(line);
    }
}

/// A call waits for the earlier ones that write what it touches, or touch what it writes. Buffers of the arena may
/// share memory, so places are compared, not buffers.
void Executor::order(Line &line) const {
    struct Range {
        const void *memory;
        size_t begin, end;
        bool written;
    };
    std::vector<std::vector<Range>> touched;
    for (const Line::Call &c : line.calls) {
        auto &ranges = touched.emplace_back();
        const PlanKernel &k = plan().kernels[size_t(c.plan->kernel)];
        for (size_t i = 0; i < c.plan->args.size(); i++) {
            DeviceMemory memory;
            size_t offset;
            place(c.plan->args[i].buffer, memory, offset);
            const size_t element = c.arguments[i].type.bytes();
            offset += size_t(c.plan->args[i].offset) * element;
            size_t bytes = element;
            for (int e : k.args[i].extents) bytes *= size_t(e);
            ranges.push_back({memory.address, offset, offset + bytes, k.args[i].written});
        }
    }
    auto conflict = [](const std::vector<Range> &a, const std::vector<Range> &b) {
        for (const Range &x : a)
            for (const Range &y : b)
                if ((x.written || y.written) && x.memory == y.memory && x.begin < y.end && y.begin < x.end) return true;
        return false;
    };
    line.ready.resize(line.calls.size());
    for (size_t later = 0; later < touched.size(); later++) {
        line.ready[later].function = line.calls[later].function;
        line.ready[later].argv = line.calls[later].argv.data();
        for (size_t earlier = 0; earlier < later; earlier++)
            if (conflict(touched[earlier], touched[later]))
                line.ready[earlier].next.push_back(int(later)), line.ready[later].waits++;
    }
}

void Executor::check(const Line &line, const CallFailure &failure, size_t first) const {
    if (failure.call < 0) return;
    fail("kernel '{}' failed with code {}: {}", line.calls[first + size_t(failure.call)].plan->name, failure.code,
         device_.last_error());
}

void Executor::run(const Line &line, std::span<double> seconds) {
    if (seconds.empty()) return check(line, device_.run(line.ready), 0);
    using Clock = std::chrono::steady_clock;
    KernelCall alone;
    for (size_t i = 0; i < line.calls.size(); i++) {
        alone.function = line.ready[i].function, alone.argv = line.ready[i].argv;
        auto start = Clock::now();
        check(line, device_.run({&alone, 1}), i);
        device_.finish();
        seconds[i] += std::chrono::duration<double>(Clock::now() - start).count();
    }
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

void Executor::fetch(void *to, int buffer, size_t bytes, size_t offset) {
    DeviceMemory memory = reach(buffer, bytes, offset);
    device_.download(to, memory, offset, bytes);
}

void Executor::download(void *to, int buffer, size_t bytes, size_t offset) {
    fetch(to, buffer, bytes, offset);
    device_.finish();
}

}  // namespace cryolite
