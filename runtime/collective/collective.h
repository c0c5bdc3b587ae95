#pragma once
// Collective operations of a step's workers: reduce-scatter of gradients, all-gather of what owners computed,
// all-gather of one number of each worker. Every worker holds an end, for arrays in host memory or on a device of its
// own. Only `all_gather` waits. A watch notices a worker that gives no sign of life; nothing begins after that.

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/collective/watch.h"

namespace cryolite {

/// A range of one worker's host memory.
struct Piece {
    void *address = nullptr;
    size_t bytes = 0;
};

/// One worker's end.
class Collective {
public:
    Collective(int worker, int workers, Signs &signs, const Watch &watch)
        : worker(worker), workers(workers), signs(signs), watch(watch) {}
    Collective(const Collective &) = delete;
    virtual ~Collective() = default;

    const int worker, workers;
    Signs &signs;  ///< of this worker; its executor sets `works`
    const Watch &watch;

    /// The value of every worker becomes known to all; values[worker] is this one's. Waits. Errors: LostWorker.
    virtual void all_gather(std::span<double> values) = 0;

    /// Tells the others that this worker has failed, so that they stop waiting for it.
    virtual void give_up() = 0;
    /// Whether a worker has failed or is lost.
    virtual bool broken() const = 0;

    /// Called before something that a checkpoint holds changes. False: it must not, as a worker has failed or is lost.
    virtual bool begin_update() = 0;
    /// Called when all workers have ended a plan: what a checkpoint holds is that of a whole step.
    virtual void settle() = 0;
    /// Asked when a worker is lost: whether this process has all that a checkpoint holds, as the last whole step left
    /// it.
    virtual bool settled() const = 0;
};

/// A collective for arrays in host memory. All workers declare the same operations in the same order; an operation's
/// number is its place in that order. In one run of an operation every worker offers; the owner, once all have offered,
/// does its part and publishes; the others see it published. It can then run again. No function waits: a plan asks
/// `offered` and `published` until they are true.
class HostCollective : public Collective {
public:
    using Collective::Collective;

    /// Declares an operation and returns its number. Reduce-scatter: `owner` can read the `share` of every worker.
    /// All-gather: all workers get what the owner writes to the memory of `result`. Either may be empty.
    virtual int declare(int owner, std::span<float> share, const std::vector<Piece> &result) = 0;
    /// The shares by worker, as the owner reads them; valid once all workers have declared all operations.
    virtual std::span<const float *const> shares(int number) const = 0;

    /// This worker's share is complete, and it no longer reads the previous result.
    virtual void offer(int number) = 0;
    /// Asked by the owner: whether all have offered.
    virtual bool offered(int number) = 0;
    /// The owner has done its part.
    virtual void publish(int number) = 0;
    /// Whether the result is here and the share may be overwritten; for the owner: whether all have the result.
    virtual bool published(int number) = 0;
};

/// What a transfer does with an array of which every worker has a copy.
enum class TransferKind {
    reduce_scatter,  ///< float32: worker w gets the sum over workers of the w-th of equal parts
    reduce,          ///< float32: the owner gets the sum over workers
    all_gather,      ///< bytes: all get the w-th of equal parts from worker w
    broadcast        ///< bytes: all get what the owner has
};

/// A transfer in place, in the memory of this worker's device.
struct Transfer {
    TransferKind kind;
    int owner;      ///< of `reduce` and `broadcast`
    void *address;  ///< of all parts
    size_t bytes;   ///< of all parts
};

/// A collective for arrays on devices, one for each worker. All workers put the same transfers into a stream of their
/// device in the same order; a transfer runs once the streams of all workers have reached it.
class DeviceCollective : public Collective {
public:
    using Collective::Collective;

    /// Puts these transfers into the stream (SideStream) as one group. Errors: the library's message.
    virtual void put(std::span<const Transfer> transfers, void *stream) = 0;
    /// Called again and again while the host waits for this worker's device. Throws where other workers will never
    /// come: LostWorker; the library's error; that a worker has failed. The transfers that the device waits for are
    /// given up then.
    virtual void check() = 0;
};

}  // namespace cryolite
