#include "runtime/collective/local/local_collective.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

struct alignas(64) Count {
    std::atomic<uint64_t> n{0};
};

/// A declared operation, as all workers see it.
struct Shared {
    int owner = 0;
    size_t count = 0;                   ///< elements of a share
    std::vector<const float *> shares;  ///< by worker
    std::unique_ptr<Count[]> offered;   ///< by worker: how many times
    Count published;
};

struct Group {
    std::deque<Shared> shared;
    std::deque<Signs> signs;  ///< by worker
    std::atomic<bool> broken{false}, updating{false};
    std::optional<Watch> watch;  ///< the last member, so that it is destroyed first
};

class LocalCollective : public HostCollective {
public:
    LocalCollective(int worker, int workers, const std::shared_ptr<Group> &group)
        : HostCollective(worker, workers, group->signs[size_t(worker)], *group->watch), group_(group) {}

    int declare(int owner, std::span<float> share, const std::vector<Piece> &) override {
        const int number = declared_++;
        if (number == int(group_->shared.size())) {
            Shared &s = group_->shared.emplace_back();
            s.owner = owner, s.count = share.size();
            s.shares.resize(size_t(workers));
            s.offered = std::make_unique<Count[]>(size_t(workers));
        }
        Shared &s = at(number);
        if (s.owner != owner || s.count != share.size())
            fail("worker {} runs another step than worker 0: give all workers the same bundle", worker);
        s.shares[size_t(worker)] = share.data();
        return number;
    }
    std::span<const float *const> shares(int number) const override { return at(number).shares; }

    void offer(int number) override { at(number).offered[size_t(worker)].n.fetch_add(1, std::memory_order_release); }
    bool offered(int number) override {
        const Shared &s = at(number);
        const uint64_t mine = s.offered[size_t(worker)].n.load(std::memory_order_relaxed);
        for (int w = 0; w < workers; w++)
            if (s.offered[size_t(w)].n.load(std::memory_order_acquire) < mine) return false;
        return true;
    }
    void publish(int number) override { at(number).published.n.fetch_add(1, std::memory_order_release); }
    bool published(int number) override {
        const Shared &s = at(number);
        return s.published.n.load(std::memory_order_acquire) >=
               s.offered[size_t(worker)].n.load(std::memory_order_relaxed);
    }

    // Nothing to do: the workers are threads, and the trainer of their process has all values.
    void all_gather(std::span<double>) override {}

    void give_up() override { group_->broken = true; }
    bool broken() const override { return group_->broken || watch.any_lost(); }

    // These two and `broken` are sequentially consistent: either `begin_update` sees that a worker is lost, or
    // `settled`, which is asked after the loss, sees the update.
    bool begin_update() override {
        group_->updating = true;
        return !broken();
    }
    bool settled() const override { return !group_->updating; }
    void settle() override { group_->updating = false; }

private:
    std::shared_ptr<Group> group_;
    int declared_ = 0;

    Shared &at(int number) const { return group_->shared[size_t(number)]; }
};

}  // namespace

std::vector<std::unique_ptr<HostCollective>> local_collectives(int workers, double patience,
                                                               std::function<void()> lost) {
    auto group = std::make_shared<Group>();
    group->signs.resize(size_t(workers));
    auto alive = [g = group.get()](int w) { return g->signs[size_t(w)].given(); };
    auto name = [](int w) { return fmt::format("worker {}", w); };
    group->watch.emplace(Watch::Workers{workers, alive, name, std::move(lost)}, patience);
    std::vector<std::unique_ptr<HostCollective>> ends;
    for (int w = 0; w < workers; w++) ends.push_back(std::make_unique<LocalCollective>(w, workers, group));
    return ends;
}

}  // namespace cryolite
