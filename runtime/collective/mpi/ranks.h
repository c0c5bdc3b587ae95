#pragma once
// This process among the ranks of MPI. No wait here is MPI's own, which would last for ever where a rank is lost.

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/collective/watch.h"

namespace cryolite {

/// Every rank tells all others some times in `patience` that it lives, as long as it gives signs of life itself, and
/// listens to them: by messages of their own, sent and received by the thread of the watch.
class Ranks {
public:
    /// Begins MPI. Errors: it does not let several threads call it.
    Ranks();
    /// Takes leave of the others and ends MPI. A rank that does not take leave ends all.
    ~Ranks();
    Ranks(const Ranks &) = delete;

    int rank = 0, size = 1;
    Signs signs;  ///< of this rank
    const Watch &watch() const { return *watch_; }
    void set_patience(double seconds);

    /// Waits until all are done, first with an eye on every moment, later without keeping a core busy.
    /// Errors: LostWorker.
    void wait(std::span<MPI_Request> requests) const;
    void wait(MPI_Request request) const { wait({&request, 1}); }
    [[noreturn]] void abort(int status) const;

private:
    enum Word : int { living, leaving };
    struct Peer {
        std::string name;
        MPI_Request said = MPI_REQUEST_NULL, heard = MPI_REQUEST_NULL;
        int word = living;  ///< that was heard
        bool left = false;
    };
    std::vector<Peer> peers_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    double patience_ = default_patience;
    std::atomic<bool> quiet_{false};  ///< a rank is lost: who gives up must not be sent anything meanwhile
    std::optional<Watch> watch_;

    void name_peers();
    void say(Peer &peer, const int &word);
    bool hear(int rank);
    bool alive(int rank);
    void take_leave();
};

}  // namespace cryolite
