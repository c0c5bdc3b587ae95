#include "runtime/exec/executor.h"

#include <chrono>

#include "runtime/collective/sum.h"
#include "runtime/io/error.h"
#include "runtime/plan/memory_need.h"

namespace cryolite {

namespace {

halide_type_t halide_type(const std::string &name) {
    size_t digits = name.find_first_of("0123456789");
    int bits = std::stoi(name.substr(digits));
    std::string kind = name.substr(0, digits);
    auto code = kind == "float"    ? halide_type_float
                : kind == "bfloat" ? halide_type_bfloat
                : kind == "int"    ? halide_type_int
                                   : halide_type_uint;
    return halide_type_t(code, uint8_t(bits));
}

}  // namespace

Executor::Executor(std::shared_ptr<const Bundle> bundle, Device &device, Collective *collective, Executor *leader)
    : bundle_(std::move(bundle)), device_(device), collective_(collective), leader_(leader) {
    if (plan().device != device_.name())
        fail("the kernels were compiled for the device {}, not for {}: compile them with --device {}", plan().device,
             device_.name(), device_.name());
    device_.check_capability(plan().capability);
    if (plan().workers != (collective ? collective->workers : 1))
        fail("the step is compiled for {} workers, not for {}", plan().workers, collective ? collective->workers : 1);
    if (collective && device_.name() != "cpu")
        fail("workers add gradients in the host's memory, but theirs are on the device {}; use one worker",
             device_.name());
    try {
        allocate();
    } catch (const OutOfMemory &e) {
        release();
        fail("{}. The step holds there:{}\nUse a smaller batch, context or model, or --recompute BYTES, which trades "
             "time for memory",
             e.what(), MemoryNeed{plan().memory(1)}.table_of_arrays());
    }
    if (!collective_) return;
    collective_->signs.works = [&device] { return device.works(); };
    declare();
}

Executor::~Executor() { release(); }

void Executor::release() {
    device_.release(arena_);
    for (size_t b = 0; b < memory_.size(); b++)
        if (!leader_ || !shared(plan().buffers[b])) device_.release(memory_[b]);
}

/// Whether the workers of a process have one memory for it.
bool Executor::shared(const PlanBuffer &b) const {
    return b.role == "parameter" || b.role == "master_low" || b.role == "master" || b.role == "state" ||
           b.role == "norms";
}

bool Executor::changes_checkpoint(const PlanCall &c) const {
    for (size_t i = 0; i < c.args.size(); i++) {
        const std::string &role = plan().buffers[size_t(c.args[i].buffer)].role;
        const bool saved = role == "parameter" || role == "master_low" || role == "master" || role == "state" ||
                           role == "count" || role == "loss_scaler";
        if (saved && plan().writes(c, i)) return true;
    }
    return false;
}

void Executor::allocate() {
    const Plan &p = plan();
    arena_ = device_.allocate(size_t(p.arena) + 64, "activations");
    memory_.resize(p.buffers.size());
    for (size_t b = 0; b < p.buffers.size(); b++) {
        const PlanBuffer &buffer = p.buffers[b];
        if (buffer.role == "activation" || !buffer.stored) continue;
        memory_[b] = leader_ && shared(buffer)
                         ? leader_->memory_[b]
                         : device_.allocate(size_t(buffer.bytes) + 64, buffer.role + " " + buffer.name);
    }
}

void Executor::place(int buffer, DeviceMemory &memory, size_t &offset) const {
    if (const PlanBuffer &share = plan().buffers.at(size_t(buffer)); share.role == "share")
        buffer = plan().gradient_of(share.parameter);  // of this worker, its own
    const PlanBuffer &b = plan().buffers.at(size_t(buffer));
    bool in_arena = b.role == "activation";
    if (in_arena ? b.offset < 0 : !b.stored) fail("'{}' is not stored in this plan", b.name);
    memory = in_arena ? arena_ : memory_[size_t(buffer)];
    offset = in_arena ? size_t(b.offset) : 0;
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
        for (size_t i = 0; i < calls.size(); i++) resolve(line, calls[i], collective_ ? shared_[name][i] : -1);
        order(line);
        line.replay = device_.make_replay();
        if (tracing())
            for (const PlanCall &c : calls) trace_note(c.name, stages_in_words(c));
    }
}

halide_buffer_t Executor::bound(const PlanCall::Bound &a, const std::string &type) {
    halide_buffer_t b = {};
    b.type = halide_type(type);
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

/// A call for one worker: the gradients that it adds, and the results that all read. Optimizer state is nobody else's.
int Executor::declare(const PlanCall &c) {
    std::span<float> share;
    std::vector<Piece> result;
    for (size_t i = 0; i < c.args.size(); i++) {
        const PlanBuffer &b = plan().buffers[size_t(c.args[i].buffer)];
        const int64_t count = plan().elements(c, i);
        const halide_buffer_t at = bound(c.args[i], b.type);
        if (c.sum > 0 || b.role == "share")
            share = {static_cast<float *>(device_.host_address(at)), size_t(count)};
        else if (plan().writes(c, i) && shared(b) && b.role != "state")
            result.push_back({device_.host_address(at), size_t(count * b.element_bytes())});
    }
    return collective_->declare(c.worker, share, result);
}

namespace {

/// The call runs what a dialect makes of it now, where its arguments are.
void use_dialect(Executor::Line::Call &call, const PlanKernel::Dialect &d, const Device &device) {
    const std::string &name = call.plan->name;
    const Dialect *dialect = load_dialect(d.name);
    if (!dialect) fail("'{}' is a product by {}, which this build does not have; {}", name, d.name, how_to_get(d.name));
    std::vector<void *> addresses;
    for (const halide_buffer_t &b : call.arguments) addresses.push_back(device.host_address(b));
    try {
        call.ready = dialect->prepare(d.product, addresses);
    } catch (const std::exception &e) {
        fail("'{}': {} cannot compute it: {}", name, d.name, e.what());
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
        Line::End &end = line.ends.emplace_back(Line::End{collective_, shared, line.context, sum, c.sum, {}});
        end.argv[0] = &end;
        if (c.sum > 0 || c.worker != collective_->worker) return;
    }
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
        if (const PlanBuffer &whose = plan().buffers[size_t(c.args[i].buffer)]; whose.role == "share")
            device_.bind_host(b, collective_->shares(shared)[size_t(whose.worker)]);
        call.argv.push_back(&b);
    }
    if (k.chosen >= 0) use_dialect(call, k.dialects[size_t(k.chosen)], device_);
}

namespace {

using End = Executor::Line::End;

int offer(void **argv) {
    auto *end = static_cast<End *>(argv[0]);
    return end->collective->offer(end->number), 0;
}
int add(void **argv) {
    auto *end = static_cast<End *>(argv[0]);
    return add_in_order(end->sum, end->collective->shares(end->number), size_t(end->count), end->context), 0;
}
int publish(void **argv) {
    auto *end = static_cast<End *>(argv[0]);
    return end->collective->publish(end->number), 0;
}
int nothing(void **) { return 0; }

/// Whether it is more than a word to other workers.
bool computes(int (*function)(void **)) { return function != offer && function != publish && function != nothing; }

std::function<Gate()> when(bool (Collective::*ready)(int), const End &end) {
    return [ready, c = end.collective, n = end.number] {
        return (c->*ready)(n) ? Gate::open : c->broken() ? Gate::broken : Gate::closed;
    };
}

/// Of a call that changes what a checkpoint holds: opens as `otherwise` does, unless a worker has failed.
std::function<Gate()> update_when(Collective *collective, std::function<Gate()> otherwise) {
    return [collective, otherwise = std::move(otherwise)] {
        const Gate gate = otherwise ? otherwise() : Gate::open;
        return gate == Gate::open && !collective->begin_update() ? Gate::broken : gate;
    };
}

/// A worker owes signs of life while it runs a plan.
class AtWork {
public:
    explicit AtWork(Collective *collective) : collective_(collective) { set(true); }
    ~AtWork() { set(false); }
    AtWork(const AtWork &) = delete;

private:
    Collective *collective_;
    void set(bool at_work) {
        if (collective_) collective_->signs.at_work.store(at_work, std::memory_order_release);
    }
};

}  // namespace

/// A call waits for the earlier ones that write what it touches, or touch what it writes. Buffers of the arena may
/// share memory, so places are compared, not buffers. A call for one worker is several here: every worker offers, when
/// it has done what the call would wait for; the owner, when all have, runs it and publishes; the others, when they see
/// that, go on with what waits for it.
void Executor::order(Line &line) const {
    struct Range {
        const void *memory;
        size_t begin, end;
        bool written;
    };
    std::vector<std::vector<Range>> touched;
    for (const Line::Call &c : line.calls) {
        auto &ranges = touched.emplace_back();
        for (size_t i = 0; i < c.plan->args.size(); i++) {
            const PlanCall::Bound &a = c.plan->args[i];
            DeviceMemory memory;
            size_t offset;
            place(a.buffer, memory, offset);
            const size_t element = size_t(plan().buffers[size_t(a.buffer)].element_bytes());
            offset += size_t(a.offset) * element;
            const size_t bytes = element * size_t(plan().elements(*c.plan, i));
            ranges.push_back({memory.address, offset, offset + bytes, plan().writes(*c.plan, i)});
        }
    }
    auto conflict = [](const std::vector<Range> &a, const std::vector<Range> &b) {
        for (const Range &x : a)
            for (const Range &y : b)
                if ((x.written || y.written) && x.memory == y.memory && x.begin < y.end && y.begin < x.end) return true;
        return false;
    };
    auto add_ready = [&](int call, int (*function)(void **), void **argv, std::function<Gate()> gate = {}) {
        line.ready.push_back({function,
                              argv,
                              0,
                              {},
                              std::move(gate),
                              computes(function) ? std::string_view(line.calls[size_t(call)].plan->name) : ""});
        line.call_of.push_back(call);
        return int(line.ready.size()) - 1;
    };
    auto after = [&](int earlier, int later) {
        line.ready[size_t(earlier)].next.push_back(later), line.ready[size_t(later)].waits++;
    };
    struct Place {
        int first, run = -1, done;  ///< in `ready`; run: -1, it runs elsewhere
    };
    std::vector<Place> places;
    auto end = line.ends.begin();
    for (size_t later = 0; later < line.calls.size(); later++) {
        Line::Call &c = line.calls[later];
        Place at{};
        const bool updates = collective_ && changes_checkpoint(*c.plan);
        if (c.shared < 0) {
            at.first = at.run = at.done = add_ready(int(later), c.function, c.argv.data());
            if (updates) line.ready[size_t(at.run)].gate = update_when(collective_, {});
        } else {
            End &e = *end++;
            at.first = add_ready(int(later), offer, e.argv);
            int last = at.first;
            if (c.plan->worker == collective_->worker) {
                at.run = c.plan->sum > 0 ? add_ready(int(later), add, e.argv)
                                         : add_ready(int(later), c.function, c.argv.data());
                const auto offered = when(&Collective::offered, e);
                line.ready[size_t(at.run)].gate = updates ? update_when(collective_, offered) : offered;
                last = add_ready(int(later), publish, e.argv);
                after(at.first, at.run), after(at.run, last);
            }
            at.done = add_ready(int(later), nothing, e.argv, when(&Collective::published, e));
            after(last, at.done);
            if (at.run >= 0) at.done = at.run;  // what is sent may be read here meanwhile
        }
        for (size_t earlier = 0; earlier < later; earlier++) {
            if (!conflict(touched[earlier], touched[later])) continue;
            const int done = places[earlier].done;
            // What one worker does one after the other, the others need not wait for in between.
            const bool same = c.shared >= 0 && c.plan->worker == line.calls[earlier].plan->worker;
            if (!same)
                after(done, at.first);
            else if (at.run >= 0)
                after(done, at.run);
        }
        places.push_back(at);
    }
}

void Executor::check(const Line &line, const CallFailure &failure, size_t first) const {
    if (failure.call < 0) return;
    const std::string &name = line.calls[size_t(line.call_of[first + size_t(failure.call)])].plan->name;
    if (failure.code == gate_broken) collective_->watch.check();
    if (failure.code == gate_broken) fail("'{}' waited for another worker, which has failed", name);
    fail("kernel '{}' failed with code {}: {}", name, failure.code, device_.last_error());
}

void Executor::run(const Line &line, std::span<double> seconds) {
    const AtWork at_work(collective_);
    if (seconds.empty()) return check(line, device_.run(line.ready, line.replay.get()), 0);
    using Clock = std::chrono::steady_clock;
    run_each(line, [&](size_t call, bool, const std::function<void()> &work) {
        const auto start = Clock::now();
        work();
        seconds[call] += std::chrono::duration<double>(Clock::now() - start).count();
    });
}

void Executor::run_each(const Line &line, const Around &around) {
    for (size_t i = 0; i < line.ready.size(); i++) {
        const KernelCall &call = line.ready[i];
        const KernelCall alone{call.function, call.argv, 0, {}, call.gate, call.name};
        around(size_t(line.call_of[i]), computes(call.function), [&] {
            check(line, device_.run({&alone, 1}), i);
            device_.finish();
        });
    }
}

void Executor::clear_results() {
    const std::vector<std::byte> zeros(1 << 20);
    auto clear = [&](const DeviceMemory &memory) {
        for (size_t begin = 0; begin < memory.bytes; begin += zeros.size())
            device_.upload(memory, begin, zeros.data(), std::min(zeros.size(), memory.bytes - begin));
    };
    clear(arena_);
    for (size_t b = 0; b < memory_.size(); b++)
        if (const std::string &role = plan().buffers[b].role; role == "gradient" || role == "norms" || role == "scale")
            clear(memory_[b]);
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
