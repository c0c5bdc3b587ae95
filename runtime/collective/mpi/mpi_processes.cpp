// Workers that are ranks of MPI, one each. Shares and results go from rank to rank by messages of their own, in any order
// and while kernels run; owners add the shares in the order of the ranks, which no reduction of MPI's own promises.

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <new>

#include "runtime/collective/processes.h"
#include "runtime/error.h"

namespace cryolite {

namespace {

constexpr size_t largest_message = size_t(1) << 30;  // counts are ints

class MpiCollective : public Collective {
public:
    MpiCollective(int rank, int size) : Collective(rank, size) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
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
        if (tag_ > largest_tag_ - tags) fail("the step has more parts than MPI has tags, {}: use fewer ranks", largest_tag_);
        tag_ += tags;
        s.requests.reserve(size_t(tags * workers));
        for (int r = 0; r < workers && owner == worker && !share.empty(); r++) {
            if (r != worker) s.received.emplace_back(static_cast<float *>(std::aligned_alloc(64, (share.size_bytes() + 127) / 64 * 64)));
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
                if (r != worker) MPI_Irecv(const_cast<float *>(s.shares[size_t(r)]), count, MPI_FLOAT, r, s.tag, comm_, s.request());
            return;
        }
        if (count > 0) MPI_Isend(s.share.data(), count, MPI_FLOAT, s.owner, s.tag, comm_, s.request());
        int tag = s.tag;
        for (const Piece &p : s.pieces) MPI_Irecv(p.address, int(p.bytes), MPI_BYTE, s.owner, ++tag, comm_, s.request());
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
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), 1, MPI_DOUBLE, comm_);
    }

    // A rank that fails aborts all of them.
    void give_up() override {}
    bool broken() const override { return false; }

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
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::deque<Shared> shared_;
    int tag_ = 0, largest_tag_ = 32767;

    Shared &at(int number) { return shared_[size_t(number)]; }
    /// Whether all messages of this run have arrived or are sent; asking moves them on.
    static bool done(Shared &s) {
        if (s.requests.empty()) return true;
        int all = 0;
        MPI_Testall(int(s.requests.size()), s.requests.data(), &all, MPI_STATUSES_IGNORE);
        if (all) s.requests.clear();
        return all;
    }
};

class MpiProcesses : public Processes {
public:
    MpiProcesses() {
        int threads = 0;
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        if (threads < MPI_THREAD_MULTIPLE)
            fail("this MPI library does not let several threads call it (MPI_THREAD_MULTIPLE): use Open MPI 4 or later");
    }
    ~MpiProcesses() override { MPI_Finalize(); }

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    std::unique_ptr<Collective> collective() override { return std::make_unique<MpiCollective>(rank_, size_); }

    void barrier() override {
        MPI_Request all;
        MPI_Ibarrier(MPI_COMM_WORLD, &all);
        for (int done = 0;; usleep(1000)) {
            MPI_Test(&all, &done, MPI_STATUS_IGNORE);
            if (done) return;
        }
    }
    void collect(std::span<std::byte> array, std::span<const Share> shares) override {
        for (const Share &s : shares)
            for (size_t at = 0; at < s.bytes; at += largest_message) {
                std::byte *part = array.data() + s.begin + at;
                const int bytes = int(std::min(largest_message, s.bytes - at));
                if (s.rank == rank_ && rank_ != 0) MPI_Send(part, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
                if (s.rank != rank_ && rank_ == 0) MPI_Recv(part, bytes, MPI_BYTE, s.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
    }
    /// Ranks of this host that mpirun has not bound apart divide their cores in order.
    std::vector<int> cores(std::vector<int> usable) override {
        cpu_set_t mine;
        CPU_ZERO(&mine);
        for (int c : usable) CPU_SET(c, &mine);
        MPI_Comm host;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
        int ranks = 1, own = 0;
        MPI_Comm_size(host, &ranks), MPI_Comm_rank(host, &own);
        std::vector<cpu_set_t> all(static_cast<size_t>(ranks));
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, host);
        MPI_Comm_free(&host);
        size_t sharing = 0, place = 0;
        for (int r = 0; r < ranks; r++)
            if (CPU_EQUAL(&all[size_t(r)], &mine)) sharing++, place += r < own;
        const size_t each = usable.size() / sharing;
        if (each == 0) return {usable[place % usable.size()]};  // fewer cores than ranks
        return {usable.begin() + long(place * each), usable.begin() + long((place + 1) * each)};
    }
    void abort(int status) override { MPI_Abort(MPI_COMM_WORLD, status); }

private:
    int rank_ = 0, size_ = 1;
};

}  // namespace

}  // namespace cryolite

extern "C" cryolite::Processes *cryolite_mpi_processes() { return new cryolite::MpiProcesses; }
