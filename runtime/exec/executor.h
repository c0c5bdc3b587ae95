#pragma once
// Runs the plans of a bundle on a device. Everything is resolved once: a step is a loop over function pointers with
// their arguments, without allocation, hashing or locks. Each of several workers has its own executor. A call that is
// assigned to one worker runs on that worker alone; the others wait for its results only where they read them.

#include <deque>
#include <map>
#include <span>

#include "dialects/dialect.h"
#include "runtime/collective/collective.h"
#include "runtime/device/device.h"
#include "runtime/exec/exchanges.h"
#include "runtime/plan/bundle.h"

namespace cryolite {

class Executor {
public:
    /// `collective`: this worker's end of it; null: the plan is for one worker. `leader`: the executor of another
    /// worker of this process, whose parameters and optimizer state in host memory this one shares; null: this one has
    /// its own. A worker with its own device holds all parameters, and the optimizer state of its shards.
    Executor(std::shared_ptr<const Bundle> bundle, Device &device, Collective *collective = nullptr,
             Executor *leader = nullptr);
    /// Prepares the calls. Call it once all workers of this process have their executors.
    void resolve();
    ~Executor();
    Executor(const Executor &) = delete;

    const Plan &plan() const { return bundle_->plan; }
    Device &device() { return device_; }

    /// A plan as a list of calls that are ready to run. `has`: whether the bundle has a plan of this name.
    struct Line;
    struct PartSums;
    const Line &line(const std::string &plan) const { return lines_.at(plan); }
    bool has(const std::string &plan) const { return lines_.count(plan) != 0; }
    /// Runs every kernel of the plan, each after those whose results it needs. Errors name the kernel. `seconds`, where
    /// not empty, has an element for each call, to which its time is added; the calls then run one by one. `busy`: not
    /// counting the time in which threads wait for each other, which other kernels use in a normal run.
    void run(const Line &line, std::span<double> seconds = {}, bool busy = false);
    /// Runs the calls of a plan one after the other. `around` gets the index of each call in the plan and must run its
    /// `work`. `computes` is false where `work` only signals other workers or waits for them.
    using Around = std::function<void(size_t call, bool computes, const std::function<void()> &work)>;
    void run_each(const Line &line, const Around &around);
    /// Call it after the backward pass of each of this worker's parts of a batch, in their order. Adds the gradients to
    /// partial sums in a tree; after the last part the gradients' buffers hold the whole sums.
    void add_part(int part);
    /// Zeroes what every step computes anew: activations, gradients and their norms.
    void clear_results();

    /// Copies `bytes` of a buffer in storage order, from byte `offset` on.
    void upload(int buffer, const void *from, size_t bytes, size_t offset = 0);
    void download(void *to, int buffer, size_t bytes, size_t offset = 0);
    /// As `download`, without waiting: `to` is valid once the device has finished.
    void fetch(void *to, int buffer, size_t bytes, size_t offset = 0);

private:
    std::shared_ptr<const Bundle> bundle_;
    Device &device_;
    Collective *collective_;
    HostCollective *host_ = nullptr;       ///< `collective_`, where it is for host memory
    DeviceCollective *between_ = nullptr;  ///< `collective_`, where each worker has its own device
    std::unique_ptr<SideStream> side_;     ///< for transfers between devices
    Executor *leader_;
    DeviceMemory arena_;
    struct Place {
        DeviceMemory memory;  ///< empty: in the arena, or never stored
        size_t begin = 0;     ///< the buffer's first byte that is stored here
        size_t end = 0;       ///< one past the last byte that is
    };
    std::vector<Place> memory_;                       ///< by buffer
    std::map<std::string, std::vector<int>> shared_;  ///< by plan and call: its number in the host collective, or -1
    std::map<std::string, std::vector<Exchange>> exchanges_;  ///< by plan: transfers between devices
    std::map<std::string, Line> lines_;
    std::deque<PartSums> part_sums_;  ///< by this worker's part of a batch; empty: there is only one

    void allocate();
    void resolve_parts();
    void release();
    void take_part(Collective *collective);
    std::vector<Place> places() const;
    void order_between(Line &line, const std::vector<Exchange> &between);
    void declare();
    int declare(const PlanCall &c);
    void resolve(Line &line, const PlanCall &c, int shared);
    void order(Line &line) const;
    bool shared(const PlanBuffer &b) const;
    bool changes_checkpoint(const PlanCall &c) const;
    halide_buffer_t bound(const PlanCall::Bound &a, const std::string &type);
    void check(const Line &line, const CallFailure &failure, size_t first) const;
    void place(int buffer, DeviceMemory &memory, size_t &offset) const;
    /// The memory of a buffer; adds the buffer's place in it to `offset`. Errors: these bytes are not stored here.
    DeviceMemory reach(int buffer, size_t bytes, size_t &offset) const;
};

struct Executor::Line {
    /// The arguments of a call that puts transfers into the side stream, or makes kernels wait for them.
    struct Turn {
        DeviceCollective *collective;
        SideStream *stream;
        size_t number;
        std::vector<Transfer> transfers;
        void *context;
        void *argv[1];
    };
    struct Call {
        Bundle::Function function = nullptr;
        std::vector<void *> argv;
        std::deque<halide_buffer_t> arguments;
        std::deque<std::vector<halide_dimension_t>> dimensions;
        std::unique_ptr<Ready> ready;  ///< a dialect's prepared implementation
        const PlanCall *plan;
        int shared = -1;  ///< number in the host collective; -1: none
    };
    /// The arguments of a call that signals other workers, or adds their gradients.
    struct End {
        HostCollective *collective;
        int number;
        void *context;
        float *sum;
        int64_t count;
        void *argv[1];
    };
    std::deque<Call> calls;  ///< as the plan lists them
    std::deque<End> ends;
    std::deque<Turn> turns;
    std::vector<KernelCall> ready;   ///< what the device runs: calls, signals to other workers and waits for them
    std::vector<int> call_of;        ///< by `ready`: index in `calls`
    std::unique_ptr<Replay> replay;  ///< what the device keeps of `ready`
    void *context = nullptr;
};

/// The additions that follow the backward pass of a part of the batch.
struct Executor::PartSums {
    /// The addition of one gradient.
    struct Sum {
        float *to;
        std::vector<const float *> from;  ///< the gradient, then partial sums of more and more parts
        size_t count;
        void *context;
        void *argv[1];
    };
    std::deque<Sum> sums;
    std::vector<KernelCall> calls;
};

}  // namespace cryolite
