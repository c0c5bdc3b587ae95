#pragma once
// What the workers of a step do together: reduce-scatter of gradients, all-gather of what owners computed, all-reduce of
// a few numbers. Every worker holds an end of it. Nothing here waits but `all_gather`: calls say that they may begin, and
// their plan begins them when they may.

#include <cstddef>
#include <span>
#include <vector>

namespace cryolite {

/// Host memory of one worker.
struct Piece {
    void *address = nullptr;
    size_t bytes = 0;
};

/// One worker's end. Shared things are declared once, by all workers in the same order, and have the numbers in which they
/// were declared. Each run of one goes: every worker offers; the owner, once all have, does its part and publishes; the
/// others see it published. In the next run everything is ready again.
class Collective {
public:
    Collective(int worker, int workers) : worker(worker), workers(workers) {}
    Collective(const Collective &) = delete;
    virtual ~Collective() = default;

    const int worker, workers;

    /// Reduce-scatter: `owner` gets to see the `share` of every worker. All-gather: all get what it writes to the places of
    /// `result`. Either may be empty. Returns its number.
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

    /// The value of every worker becomes known to all; values[worker] is this one's. Waits.
    virtual void all_gather(std::span<double> values) = 0;

    /// This worker has failed: what waits for it elsewhere ends.
    virtual void give_up() = 0;
    virtual bool broken() const = 0;
};

}  // namespace cryolite
