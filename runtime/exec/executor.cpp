#include "runtime/exec/executor.h"

#include <chrono>

#include "runtime/exec/at_work.h"
#include "runtime/io/error.h"
#include "runtime/plan/element_type.h"
#include "runtime/plan/memory_need.h"

namespace cryolite {

Executor::Executor(std::shared_ptr<const Bundle> bundle, Device &device, Collective *collective, Executor *leader)
    : bundle_(std::move(bundle)), device_(device), collective_(collective), leader_(leader) {
    if (plan().device != device_.name())
        fail("the kernels were compiled for the device {}, not for {}: compile them with --device {}", plan().device,
             device_.name(), device_.name());
    device_.check_capability(plan().capability);
    if (plan().workers != (collective ? collective->workers : 1))
        fail("the step was compiled for {} workers, but {} run it: compile it with as many --workers", plan().workers,
             collective ? collective->workers : 1);
    if (plan().parts && device_.name() != "cpu")
        fail("--deterministic adds the gradients of a batch's parts in the host's memory, but the device {} keeps them "
             "in its own: leave --deterministic out",
             device_.name());
    if (collective) take_part(collective);
    try {
        allocate();
    } catch (const OutOfMemory &e) {
        release();
        fail("{}. The step holds there:{}\nUse a smaller batch, context or model, or --recompute BYTES, which trades "
             "time for memory",
             e.what(), (between_ ? memory_need(plan(), true) : MemoryNeed{plan().memory(1)}).table_of_arrays());
    }
    if (host_) declare();
    if (between_) device_.use_watch([this] { between_->check(); });
}

Executor::~Executor() {
    lines_.clear();  // first: graphs refer to the memory, and NCCL ends no communicator while graphs hold its transfers
    release();
    if (between_) device_.use_watch({});
}

void Executor::release() {
    device_.release(arena_);
    for (size_t b = 0; b < memory_.size(); b++)
        if (!leader_ || !shared(plan().buffers[b])) device_.release(memory_[b].memory);
}

void Executor::take_part(Collective *collective) {
    host_ = dynamic_cast<HostCollective *>(collective), between_ = dynamic_cast<DeviceCollective *>(collective);
    collective->signs.works = [&device = device_] { return device.works(); };
    if (host_ && device_.name() != "cpu")
        fail("workers add gradients in the host's memory, but the device {} keeps them in its own: use one worker",
             device_.name());
    if (!between_) return;
    side_ = device_.side_stream();
    for (auto &[name, calls] : plan().plans) exchanges_[name] = exchanges(plan(), calls);
}

/// Whether the workers of a process share this buffer in host memory.
bool Executor::shared(const PlanBuffer &b) const {
    return b.role == Role::parameter || b.role == Role::master_low || b.role == Role::master || b.role == Role::state ||
           b.role == Role::norms;
}

bool Executor::changes_checkpoint(const PlanCall &c) const {
    for (size_t i = 0; i < c.args.size(); i++) {
        const Role role = plan().buffers[size_t(c.args[i].buffer)].role;
        const bool saved = role == Role::parameter || role == Role::master_low || role == Role::master ||
                           role == Role::state || role == Role::count || role == Role::loss_scaler ||
                           role == Role::joint;
        if (saved && plan().writes(c, i)) return true;
    }
    return false;
}

/// The range of each buffer that this worker stores.
std::vector<Executor::Place> Executor::places() const {
    const Plan &p = plan();
    std::vector<Place> places(p.buffers.size());
    for (size_t b = 0; b < places.size(); b++)
        if (!between_ || p.buffers[b].role != Role::state) places[b].end = size_t(p.buffers[b].bytes);
    for (auto &[name, calls] : p.plans)
        for (const PlanCall &c : calls)
            for (size_t i = 0; i < c.args.size(); i++) {
                const PlanBuffer &b = p.buffers[size_t(c.args[i].buffer)];
                if (!between_ || b.role != Role::state || (c.worker >= 0 && c.worker != collective_->worker)) continue;
                Place &at = places[size_t(c.args[i].buffer)];
                const size_t begin = size_t(c.args[i].offset * b.element_bytes()),
                             end = begin + size_t(p.elements(c, i) * b.element_bytes());
                at.begin = at.end ? std::min(at.begin, begin) : begin, at.end = std::max(at.end, end);
            }
    for (auto &[name, list] : exchanges_)
        for (const Exchange &e : list)
            for (const Exchange::Part &part : e.parts) {
                size_t &end = places[size_t(part.buffer)].end;
                end = std::max(end, size_t(part.begin + part.bytes));
            }
    return places;
}

void Executor::allocate() {
    const Plan &p = plan();
    arena_ = device_.allocate(size_t(p.arena) + 64, "activations");
    memory_ = places();
    for (size_t b = 0; b < p.buffers.size(); b++) {
        const PlanBuffer &buffer = p.buffers[b];
        if (buffer.in_arena() || !buffer.stored || buffer.part_of >= 0) continue;
        memory_[b].memory = leader_ && shared(buffer)
                                ? leader_->memory_[b].memory
                                : device_.allocate(memory_[b].end - memory_[b].begin + 64,
                                                   std::string(role_name(buffer.role)) + " " + buffer.name);
    }
}

void Executor::place(int buffer, DeviceMemory &memory, size_t &offset) const {
    if (const PlanBuffer &share = plan().buffers.at(size_t(buffer)); share.role == Role::share)
        buffer = plan().gradient_of(share.parameter);  // a worker's own share is its gradient
    const PlanBuffer &b = plan().buffers.at(size_t(buffer));
    if (b.part_of >= 0) {
        place(b.part_of, memory, offset);
        offset += size_t(b.begin * b.element_bytes());
        return;
    }
    if (b.in_arena() ? b.offset < 0 : !b.stored) fail("'{}' is not stored in this plan", b.name);
    memory = b.in_arena() ? arena_ : memory_[size_t(buffer)].memory;
    offset = b.in_arena() ? size_t(b.offset) : 0 - memory_[size_t(buffer)].begin;
}

namespace {

/// "h.0.mlp.c_fc: root, h.0.mlp.gelu: with(h.0.mlp.c_fc)"
std::string stages_in_words(const PlanCall &c) {
    std::string words;
    for (const PlanCall::Stage &s : c.stages)
        words += fmt::format("{}{}: {}", words.empty() ? "" : ", ", s.name, s.placed);
    return words;
}

}  // namespace

void Executor::resolve() {
    for (auto &[name, calls] : plan().plans) {
        Line &line = lines_[name];
        line.context = device_.context();
        for (size_t i = 0; i < calls.size(); i++) resolve(line, calls[i], host_ ? shared_[name][i] : -1);
        if (between_)
            order_between(line, exchanges_[name]);
        else
            order(line);
        for (size_t i = 0; i < line.ready.size(); i++) {
            const Line::Call &of = line.calls[size_t(line.call_of[i])];
            line.ready[i].compiled = !of.ready && of.function && line.ready[i].function == of.function;
        }
        if (between_) check(line, device_.prepare(line.ready), 0);
        line.replay = device_.make_replay();
        if (tracing())
            for (const PlanCall &c : calls) trace_note(c.name, stages_in_words(c));
    }
    resolve_parts();
}

halide_buffer_t Executor::bound(const PlanCall::Bound &a, const std::string &type) {
    halide_buffer_t b = {};
    b.type = halide_type_named(type);
    DeviceMemory memory;
    size_t offset;
    place(a.buffer, memory, offset);
    device_.bind(b, memory, offset + size_t(a.offset) * b.type.bytes());
    return b;
}

/// All workers declare the same calls in the same order.
void Executor::declare() {
    for (auto &[name, calls] : plan().plans)
        for (const PlanCall &c : calls) shared_[name].push_back(c.worker >= 0 ? declare(c) : -1);
}

/// A call that runs on one worker: the gradients it adds, and the results that all read. State stays with its owner.
int Executor::declare(const PlanCall &c) {
    std::span<float> share;
    std::vector<Piece> result;
    for (size_t i = 0; i < c.args.size(); i++) {
        const PlanBuffer &b = plan().buffers[size_t(c.args[i].buffer)];
        const int64_t count = plan().elements(c, i);
        const halide_buffer_t at = bound(c.args[i], b.type);
        if (c.sum > 0 || b.role == Role::share)
            share = {static_cast<float *>(device_.host_address(at)), size_t(count)};
        else if (plan().writes(c, i) && shared(b) && b.role != Role::state)
            result.push_back({device_.host_address(at), size_t(count * b.element_bytes())});
    }
    return host_->declare(c.worker, share, result);
}

namespace {

/// Makes the call run a dialect's implementation, which is prepared now for the addresses of the arguments.
void use_dialect(Executor::Line::Call &call, const PlanKernel::Dialect &d, const ProductPlace &place) {
    const std::string &name = call.plan->name;
    const Dialect *dialect = load_dialect(d.name);
    if (!dialect)
        fail("'{}' is computed by the dialect {}, which this build does not have; {}", name, d.name,
             how_to_get(d.name));
    try {
        call.ready = dialect->prepare(d.product, place);
    } catch (const std::exception &e) {
        fail("'{}' cannot be computed by the dialect {}: {}", name, d.name, e.what());
    }
    call.function = run_ready;
    call.argv.resize(1);  // the context
    call.argv.push_back(call.ready.get());
}

}  // namespace

void Executor::resolve(Line &line, const PlanCall &c, int shared) {
    Line::Call &call = line.calls.emplace_back();
    call.plan = &c, call.shared = shared;
    if (shared >= 0) {
        float *sum = c.sum > 0 ? static_cast<float *>(device_.host_address(bound(c.args[0], "float32"))) : nullptr;
        Line::End &end = line.ends.emplace_back(Line::End{host_, shared, line.context, sum, c.sum, {}});
        end.argv[0] = &end;
    }
    if (c.sum > 0 || (c.worker >= 0 && collective_ && c.worker != collective_->worker)) return;
    call.function = bundle_->kernel(c.kernel);
    call.argv.push_back(&line.context);
    const PlanKernel &k = plan().kernels[size_t(c.kernel)];
    for (size_t i = 0; i < c.args.size(); i++) {
        auto &dims = call.dimensions.emplace_back();
        int stride = 1;
        for (int e : k.args[i].extents) dims.emplace_back(0, e, stride), stride *= e;
        halide_buffer_t &b = call.arguments.emplace_back(bound(c.args[i], k.args[i].type));
        b.dimensions = int(dims.size());
        b.dim = dims.data();
        if (const PlanBuffer &whose = plan().buffers[size_t(c.args[i].buffer)]; whose.role == Role::share)
            device_.bind_host(b, host_->shares(shared)[size_t(whose.worker)]);
        call.argv.push_back(&b);
    }
    if (k.chosen < 0) return;
    ProductPlace at{.arguments = {}, .gpu = device_.gpu()};
    for (const halide_buffer_t &b : call.arguments) at.arguments.push_back(device_.address(b));
    if (c.workspace >= 0) {
        at.workspace = device_.address(bound({c.workspace, 0}, "uint8"));
        at.workspace_bytes = size_t(plan().buffers[size_t(c.workspace)].bytes);
    }
    use_dialect(call, k.dialects[size_t(k.chosen)], at);
}

void Executor::check(const Line &line, const CallFailure &failure, size_t first) const {
    if (failure.call < 0) return;
    const std::string &name = line.calls[size_t(line.call_of[first + size_t(failure.call)])].plan->name;
    if (failure.code == gate_broken) collective_->watch.check();
    if (failure.code == gate_broken) fail("'{}' waited for another worker, which has failed", name);
    fail("kernel '{}' failed with code {}: {}", name, failure.code, device_.last_error());
}

void Executor::run(const Line &line, std::span<double> seconds, bool busy) {
    const AtWork at_work(collective_);
    if (seconds.empty()) return check(line, device_.run(line.ready, line.replay.get()), 0);
    if (GpuStream *gpu = device_.gpu()) {  // timed by GPU events, without the host's time
        for (size_t i = 0; i < line.ready.size(); i++)
            seconds[size_t(line.call_of[i])] += gpu->seconds([&] {
                check(line, device_.run({&line.ready[i], 1}), i);
                return 0;
            });
        return;
    }
    using Clock = std::chrono::steady_clock;
    run_each(line, [&](size_t call, bool, const std::function<void()> &work) {
        const auto start = Clock::now();
        const double idle = device_.idle_seconds();
        work();
        seconds[call] += std::chrono::duration<double>(Clock::now() - start).count();
        if (busy) seconds[call] -= (device_.idle_seconds() - idle) / device_.threads();
    });
}

void Executor::run_each(const Line &line, const Around &around) {
    for (size_t i = 0; i < line.ready.size(); i++) {
        const KernelCall &call = line.ready[i];
        const KernelCall alone{call.function, call.argv, 0, {}, call.gate, call.name};
        around(size_t(line.call_of[i]), !call.name.empty(), [&] {
            check(line, device_.run({&alone, 1}), i);
            device_.finish();
        });
    }
}

void Executor::clear_results() {
    const std::vector<std::byte> zeros(1 << 20);
    auto clear = [&](const DeviceMemory &memory, size_t at, size_t bytes) {
        for (size_t done = 0; done < bytes; done += zeros.size())
            device_.upload(memory, at + done, zeros.data(), std::min(zeros.size(), bytes - done));
    };
    clear(arena_, 0, arena_.bytes);
    for (size_t b = 0; b < memory_.size(); b++)
        if (const PlanBuffer &of = plan().buffers[b];
            of.stored && (of.role == Role::gradient || of.role == Role::norms || of.role == Role::scale)) {
            DeviceMemory memory;
            size_t at = 0;
            place(int(b), memory, at);
            clear(memory, at, size_t(of.bytes));
        }
}

DeviceMemory Executor::reach(int buffer, size_t bytes, size_t &offset) const {
    DeviceMemory memory;
    size_t at;
    place(buffer, memory, at);
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    const Place &here = memory_[size_t(buffer)];
    if (offset < here.begin || offset + bytes > std::min(size_t(b.bytes), here.end))
        fail("'{}': this worker holds {} bytes from byte {} on, but {} bytes from byte {} on are read or written",
             b.name, here.end - here.begin, here.begin, bytes, offset);
    offset += at;
    return memory;
}

void Executor::upload(int buffer, const void *from, size_t bytes, size_t offset) {
    DeviceMemory memory = reach(buffer, bytes, offset);
    if (plan().buffers[size_t(buffer)].role == Role::input)
        device_.upload_batch(memory, offset, from, bytes);
    else
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
