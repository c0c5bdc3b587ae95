#pragma once
// Runs the plans of a bundle on a device. Everything is resolved once: a step is a loop over function
// pointers with their arguments, without allocation, hashing or locks. With several workers each has an executor: calls
// that are for one worker run on that one, and the others wait for what they write only where they read it.

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
    /// `collective`: this worker's end, where the plan is for several. `leader`: the executor of another worker of this
    /// process, whose parameters and optimizer state this one shares in the host's memory; on devices of their own each
    /// worker has all parameters, and the optimizer state of its parts.
    Executor(std::shared_ptr<const Bundle> bundle, Device &device, Collective *collective = nullptr,
             Executor *leader = nullptr);
    /// Makes the calls ready, when all workers of this process have their executors.
    void resolve();
    ~Executor();
    Executor(const Executor &) = delete;

    const Plan &plan() const { return bundle_->plan; }
    Device &device() { return device_; }

    /// A plan as a list of calls ready to run; empty where the bundle has none of this name.
    struct Line;
    struct PartSums;
    const Line &line(const std::string &plan) const { return lines_.at(plan); }
    bool has(const std::string &plan) const { return lines_.count(plan) != 0; }
    /// Runs every kernel of the plan, each after those whose results it needs. Errors name the kernel. `seconds`, where
    /// given, gets the time of each call added: then they run one by one. `busy`: without what threads waited for each
    /// other, as kernels share the threads where they do not run one by one.
    void run(const Line &line, std::span<double> seconds = {}, bool busy = false);
    /// Runs the calls of a plan one after the other. `around` gets each by its place in the plan and has to do its
    /// `work`, which may be to tell other workers, or to wait for them; `computes`: it writes what the call writes.
    using Around = std::function<void(size_t call, bool computes, const std::function<void()> &work)>;
    void run_each(const Line &line, const Around &around);
    /// After the backward pass of one of this worker's parts of a batch, the earlier ones of which have been added:
    /// keeps the gradients as partial sums of a tree, or after the last part leaves the whole sums in their place.
    void add_part(int part);
    /// Zeroes what every step computes anew: activations, gradients and their norms.
    void clear_results();

    /// Whole buffers in storage order, or `bytes` from `offset`.
    void upload(int buffer, const void *from, size_t bytes, size_t offset = 0);
    void download(void *to, int buffer, size_t bytes, size_t offset = 0);
    /// As `download`, without waiting: it is there when the device has finished.
    void fetch(void *to, int buffer, size_t bytes, size_t offset = 0);

private:
    std::shared_ptr<const Bundle> bundle_;
    Device &device_;
    Collective *collective_;
    HostCollective *host_ = nullptr;       ///< `collective_` of the host's memory
    DeviceCollective *between_ = nullptr;  ///< of a device of this worker's own
    std::unique_ptr<SideStream> side_;     ///< for what goes between devices
    Executor *leader_;
    DeviceMemory arena_;
    struct Place {
        DeviceMemory memory;  ///< empty: in the arena, or never stored
        size_t begin = 0;     ///< of the buffer's bytes, the first that is there
        size_t end = 0;       ///< after the last one
    };
    std::vector<Place> memory_;                       ///< by buffer
    std::map<std::string, std::vector<int>> shared_;  ///< by plan and call: its number among what workers do together
    std::map<std::string, std::vector<Exchange>> exchanges_;  ///< by plan: between devices
    std::map<std::string, Line> lines_;
    std::deque<PartSums> part_sums_;  ///< by part of this worker; empty: it has one

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
    /// The memory of a buffer; `offset` becomes the place in it. Errors: fewer bytes than are asked for.
    DeviceMemory reach(int buffer, size_t bytes, size_t &offset) const;
};

struct Executor::Line {
    /// What puts transfers into the device's other stream, or has kernels wait for them.
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
        std::unique_ptr<Ready> ready;  ///< of a dialect
        const PlanCall *plan;
        int shared = -1;  ///< of a call for one worker: its number among what workers do together
    };
    /// What a call that tells other workers, or adds what they have, is called with.
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
    std::vector<KernelCall> ready;   ///< for the device: calls, and what tells other workers and waits for them
    std::vector<int> call_of;        ///< by `ready`
    std::unique_ptr<Replay> replay;  ///< what the device keeps of `ready`
    void *context = nullptr;
};

/// What follows the backward pass of a part of the batch.
struct Executor::PartSums {
    /// Of one gradient.
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
