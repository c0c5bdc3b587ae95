#pragma once
// Ranks of a run as threads of this process: what one sends another goes through memory that they share.

#include <barrier>
#include <cstring>

#include "runtime/collective/local/local_collective.h"
#include "runtime/collective/processes.h"

namespace cryolite::test {

class RanksInThreads {
public:
    explicit RanksInThreads(int ranks)
        : all_(ranks), values_(size_t(ranks)), arrays_(size_t(ranks)), ends_(local_collectives(ranks)) {
        for (int r = 0; r < ranks; r++) processes_.push_back(std::make_unique<Rank>(*this, r));
    }
    Processes &operator[](int rank) { return *processes_[size_t(rank)]; }

private:
    class End : public HostCollective {
    public:
        End(RanksInThreads &of, std::unique_ptr<HostCollective> end)
            : HostCollective(end->worker, end->workers, end->signs, end->watch), of_(of), end_(std::move(end)) {}
        int declare(int owner, std::span<float> share, const std::vector<Piece> &result) override {
            return end_->declare(owner, share, result);
        }
        std::span<const float *const> shares(int number) const override { return end_->shares(number); }
        void offer(int number) override { end_->offer(number); }
        bool offered(int number) override { return end_->offered(number); }
        void publish(int number) override { end_->publish(number); }
        bool published(int number) override { return end_->published(number); }
        void all_gather(std::span<double> values) override {
            of_.values_[size_t(worker)] = values[size_t(worker)];
            of_.all_.arrive_and_wait();
            std::ranges::copy(of_.values_, values.begin());
            of_.all_.arrive_and_wait();
        }
        void give_up() override { end_->give_up(); }
        bool broken() const override { return end_->broken(); }
        bool begin_update() override { return end_->begin_update(); }
        void settle() override { end_->settle(); }
        bool settled() const override { return end_->settled(); }

    private:
        RanksInThreads &of_;
        std::unique_ptr<HostCollective> end_;
    };
    class Rank : public Processes {
    public:
        Rank(RanksInThreads &of, int rank) : of_(of), rank_(rank) {}
        int rank() const override { return rank_; }
        int size() const override { return int(of_.values_.size()); }
        std::unique_ptr<HostCollective> collective() override {
            return std::make_unique<End>(of_, std::move(of_.ends_[size_t(rank_)]));
        }
        void barrier() override { of_.all_.arrive_and_wait(); }
        void collect(std::span<std::byte> array, std::span<const Share> shares) override {
            of_.arrays_[size_t(rank_)] = array;
            barrier();
            for (const Share &s : shares)
                if (rank_ == 0 && s.rank != 0)
                    std::memcpy(array.data() + s.begin, of_.arrays_[size_t(s.rank)].data() + s.begin, s.bytes);
            barrier();
        }
        void broadcast(std::span<std::byte> bytes) override {
            if (rank_ == 0) of_.arrays_[0] = bytes;
            barrier();
            if (rank_ != 0) std::memcpy(bytes.data(), of_.arrays_[0].data(), bytes.size());
            barrier();
        }

    private:
        RanksInThreads &of_;
        const int rank_;
    };

    std::barrier<> all_;
    std::vector<double> values_;
    std::vector<std::span<std::byte>> arrays_;
    std::vector<std::unique_ptr<HostCollective>> ends_;
    std::vector<std::unique_ptr<Rank>> processes_;
};

}  // namespace cryolite::test
