#pragma once
// What the workers of a step do together: reduce-scatter of gradients, all-gather of what owners computed, all-reduce
// of a few numbers. Every worker holds an end of it: of arrays in the host's memory, or on a device of its own. Nothing
// here waits but `all_gather`. A watch notices a worker that gives no sign of life; then nothing begins any more.

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/collective/watch.h"

namespace cryolite {

/// Host memory of one worker.
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
    Signs &signs;  ///< of this worker; its executor says what they are
    const Watch &watch;

    /// The value of every worker becomes known to all; values[worker] is this one's. Waits. Errors: LostWorker.
    virtual void all_gather(std::span<double> values) = 0;

    /// This worker has failed: what waits for it elsewhere ends.
    virtual void give_up() = 0;
    /// Whether a worker has failed or is lost.
    virtual bool broken() const = 0;

    /// Something that a checkpoint holds is about to change. False: it must not, for a worker has failed or is lost.
    virtual bool begin_update() = 0;
    /// All workers have ended their lines: what a checkpoint holds is that of a whole step.
    virtual void settle() = 0;
    /// Whether this process has all that a checkpoint holds, as the last whole step left it;
    /// asked when a worker is lost.
    virtual bool settled() const = 0;
};

/// Of arrays in the host's memory. Shared things are declared once, by all workers in the same order, and have the
/// numbers in which they were declared. Each run of one goes: every worker offers; the owner, once all have, does its
/// part and publishes; the others see it published. In the next run everything is ready again. Calls say that they may
/// begin, and their plan begins them when they may.
class HostCollective : public Collective {
public:
    using Collective::Collective;

    /// Reduce-scatter: `owner` gets to see the `share` of every worker. All-gather: all get what it writes to the
    /// places of `result`. Either may be empty. Returns its number.
    virtual int declare(int owner, std::span<float> share, const std::vector<Piece> &result) = 0;
    /// Where the owner sees the shares, by worker; known when all have declared all.
    virtual std::span<const float *const> shares(int number) const = 0;

    /// This worker's share is there, and it reads the old result no longer.
    virtual void offer(int number) = 0;
    /// The owner asks whether all have offered.
    virtual bool offered(int number) = 0;
    /// The owner has done its part.
    virtual void publish(int number) = 0;
    /// This worker's share may be overwritten, and the result is there; to the owner: all have it.
    virtual bool published(int number) = 0;
};

/// What a transfer does with an array that every worker has in a place of its own.
enum class TransferKind {
    reduce_scatter,  ///< float32: worker w gets the sum of all in part w of equal parts
    reduce,          ///< float32: the owner gets the sum of all
    all_gather,      ///< bytes: all get part w of worker w
    broadcast        ///< bytes: all get what the owner has
};

/// In place, in memory of the worker's device.
struct Transfer {
    TransferKind kind;
    int owner;      ///< of `reduce` and `broadcast`
    void *address;  ///< of all parts
    size_t bytes;   ///< of all parts
};

/// Of arrays on devices, one for each worker. Transfers are put into a stream of the device, by all workers in the same
/// order, and done when all have come to them.
class DeviceCollective : public Collective {
public:
    using Collective::Collective;

    /// Puts these into the stream (SideStream), as one. Errors: the library's words.
    virtual void put(std::span<const Transfer> transfers, void *stream) = 0;
    /// Asked while the host waits for this worker's device. Throws where other workers never come: LostWorker; what
    /// the library met; that a worker has failed. What the device waits for is given up then.
    virtual void check() = 0;
};

}  // namespace cryolite
