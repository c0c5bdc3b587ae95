#include "runtime/collective/mpi/mpi_collective.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <new>

namespace cryolite {

namespace {

class MpiCollective : public HostCollective {
public:
    explicit MpiCollective(Ranks &ranks)
        : HostCollective(ranks.rank, ranks.size, ranks.signs, ranks.watch()), ranks_(ranks) {
        MPI_Request made = MPI_REQUEST_NULL;
        MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &made);
        ranks_.wait(made);
        int *bound = nullptr, there = 0;
        MPI_Comm_get_attr(comm_, MPI_TAG_UB, &bound, &there);
        if (there) largest_tag_ = *bound;
    }
    ~MpiCollective() override {
        int finished = 0;
        MPI_Finalized(&finished);
        if (!finished) MPI_Comm_free(&comm_);
    }

    int declare(int owner, std::span<float> share, const std::vector<Piece> &result) override {
        Shared &s = shared_.emplace_back();
        s.owner = owner, s.share = share, s.tag = tag_;
        for (const Piece &p : result)
            for (size_t at = 0; at < p.bytes; at += largest_message)
                s.pieces.push_back({static_cast<char *>(p.address) + at, std::min(largest_message, p.bytes - at)});
        const int tags = 1 + int(s.pieces.size());  // the first is the share's
        if (tag_ > largest_tag_ - tags)
            fail("the step has more parts than MPI has tags, {}: use fewer ranks", largest_tag_);
        tag_ += tags;
        s.requests.reserve(size_t(tags * workers));
        for (int r = 0; r < workers && owner == worker && !share.empty(); r++) {
            if (r != worker)
                s.received.emplace_back(
                    static_cast<float *>(std::aligned_alloc(64, (share.size_bytes() + 127) / 64 * 64)));
            if (r != worker && !s.received.back()) throw std::bad_alloc();
            s.shares.push_back(r == worker ? share.data() : s.received.back().get());
        }
        return int(shared_.size()) - 1;
    }
    std::span<const float *const> shares(int number) const override { return shared_[size_t(number)].shares; }

    void offer(int number) override {
        Shared &s = at(number);
        const int count = int(s.share.size());
        if (s.owner == worker) {
            for (int r = 0; r < workers && count > 0; r++)
                if (r != worker)
                    MPI_Irecv(const_cast<float *>(s.shares[size_t(r)]), count, MPI_FLOAT, r, s.tag, comm_, s.request());
            return;
        }
        if (count > 0) MPI_Isend(s.share.data(), count, MPI_FLOAT, s.owner, s.tag, comm_, s.request());
        int tag = s.tag;
        for (const Piece &p : s.pieces)
            MPI_Irecv(p.address, int(p.bytes), MPI_BYTE, s.owner, ++tag, comm_, s.request());
    }
    bool offered(int number) override { return done(at(number)); }
    void publish(int number) override {
        Shared &s = at(number);
        for (int r = 0; r < workers; r++) {
            int tag = s.tag;
            if (r == worker) continue;
            for (const Piece &p : s.pieces) MPI_Isend(p.address, int(p.bytes), MPI_BYTE, r, ++tag, comm_, s.request());
        }
    }
    bool published(int number) override { return done(at(number)); }

    void all_gather(std::span<double> values) override {
        MPI_Request gathered = MPI_REQUEST_NULL;
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), 1, MPI_DOUBLE, comm_, &gathered);
        ranks_.wait(gathered);
    }

    // A rank that fails aborts all of them.
    void give_up() override {}
    bool broken() const override { return watch.any_lost(); }

    // Each rank has the optimizer state of its own shards alone: without one of them there is nothing to save.
    bool begin_update() override { return !broken(); }
    void settle() override {}
    bool settled() const override { return false; }

private:
    struct Free {
        void operator()(float *p) const { std::free(p); }
    };
    struct Shared {
        int owner = 0, tag = 0;
        std::span<float> share;
        std::vector<std::unique_ptr<float, Free>> received;  ///< the shares of others, aligned as kernels want it
        std::vector<const float *> shares;                   ///< by rank
        std::vector<Piece> pieces;
        std::vector<MPI_Request> requests;
        MPI_Request *request() { return &requests.emplace_back(MPI_REQUEST_NULL); }
    };
    Ranks &ranks_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::deque<Shared> shared_;
    int tag_ = 0, largest_tag_ = 32767;

    Shared &at(int number) { return shared_[size_t(number)]; }
    /// Whether all messages of this run have been sent and received. MPI_Testall also makes progress on them.
    static bool done(Shared &s) {
        if (s.requests.empty()) return true;
        int all = 0;
        MPI_Testall(int(s.requests.size()), s.requests.data(), &all, MPI_STATUSES_IGNORE);
        if (all) s.requests.clear();
        return all;
    }
};

}  // namespace

std::unique_ptr<HostCollective> mpi_collective(Ranks &ranks) { return std::make_unique<MpiCollective>(ranks); }

}  // namespace cryolite
