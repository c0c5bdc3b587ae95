// The processes of a run as ranks of MPI, one worker each.

#include <sched.h>

#include <algorithm>

#include "runtime/collective/mpi/mpi_collective.h"
#include "runtime/collective/processes.h"

namespace cryolite {

namespace {

class MpiProcesses : public Processes {
public:
    MpiProcesses() {
        MPI_Comm host;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks_.rank, MPI_INFO_NULL, &host);
        first_on_host_ = ranks_.rank;
        MPI_Bcast(&first_on_host_, 1, MPI_INT, 0, host);
        MPI_Comm_size(host, &on_host_);
        MPI_Comm_rank(host, &place_on_host_);
        MPI_Comm_free(&host);
    }

    int rank() const override { return ranks_.rank; }
    int size() const override { return ranks_.size; }
    void set_patience(double seconds) override { ranks_.set_patience(seconds); }
    std::unique_ptr<HostCollective> collective() override { return mpi_collective(ranks_); }

    void barrier() override {
        MPI_Request all;
        MPI_Ibarrier(MPI_COMM_WORLD, &all);
        ranks_.wait(all);
    }
    void collect(std::span<std::byte> array, std::span<const Share> shares) override {
        std::vector<MPI_Request> requests;
        for (const Share &s : shares)
            for (size_t at = 0; at < s.bytes; at += largest_message) {
                std::byte *part = array.data() + s.begin + at;
                const int bytes = int(std::min(largest_message, s.bytes - at));
                MPI_Request &r = requests.emplace_back(MPI_REQUEST_NULL);
                if (s.rank == rank() && rank() != 0) MPI_Isend(part, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &r);
                if (s.rank != rank() && rank() == 0) MPI_Irecv(part, bytes, MPI_BYTE, s.rank, 0, MPI_COMM_WORLD, &r);
            }
        ranks_.wait(requests);
    }
    /// Ranks of this host that mpirun has bound to the same cores divide these in rank order.
    std::vector<int> cores(std::vector<int> usable) override {
        struct Place {
            int first;  ///< the first rank on its host
            cpu_set_t cores;
        };
        std::vector<Place> all(static_cast<size_t>(size()));
        Place &own = all[size_t(rank())];
        own.first = first_on_host_;
        CPU_ZERO(&own.cores);
        for (int c : usable) CPU_SET(c, &own.cores);
        MPI_Request gathered = MPI_REQUEST_NULL;
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), sizeof(Place), MPI_BYTE, MPI_COMM_WORLD,
                       &gathered);
        ranks_.wait(gathered);
        size_t sharing = 0, place = 0;
        for (int r = 0; r < size(); r++) {
            const Place &other = all[size_t(r)];
            if (other.first == first_on_host_ && CPU_EQUAL(&other.cores, &own.cores)) sharing++, place += r < rank();
        }
        const size_t each = usable.size() / sharing;
        if (each == 0) return {usable[place % usable.size()]};  // fewer cores than ranks
        return {usable.begin() + long(place * each), usable.begin() + long((place + 1) * each)};
    }
    void broadcast(std::span<std::byte> bytes) override {
        MPI_Request all;
        MPI_Ibcast(bytes.data(), int(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD, &all);
        ranks_.wait(all);
    }
    int on_host() const override { return on_host_; }
    int place_on_host() const override { return place_on_host_; }
    void abort(int status) override { ranks_.abort(status); }

private:
    Ranks ranks_;
    int first_on_host_ = 0;  ///< the first rank on this one's host
    int on_host_ = 1;        ///< ranks on this host
    int place_on_host_ = 0;  ///< index of this one among them
};

}  // namespace

}  // namespace cryolite

extern "C" cryolite::Processes *cryolite_mpi_processes() { return new cryolite::MpiProcesses; }
