#pragma once
// This process as a rank of MPI. `wait` polls: MPI's own waits would last for ever where a rank is lost.

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/collective/watch.h"

namespace cryolite {

/// A rank that gives signs of life tells all others so, several times in each `patience`, and listens to them. The
/// watch's thread sends and receives these messages.
class Ranks {
public:
    /// Initialises MPI. Errors: the library does not support MPI_THREAD_MULTIPLE.
    Ranks();
    /// Tells the others that this rank leaves, waits until they leave too, and ends MPI. Aborts the run where one does
    /// not.
    ~Ranks();
    Ranks(const Ranks &) = delete;

    int rank = 0, size = 1;
    Signs signs;  ///< of this rank
    const Watch &watch() const { return *watch_; }
    void set_patience(double seconds);

    /// Waits until all requests are done, at first in a busy loop, later without keeping a core busy. Errors:
    /// LostWorker.
    void wait(std::span<MPI_Request> requests) const;
    void wait(MPI_Request request) const { wait({&request, 1}); }
    [[noreturn]] void abort(int status) const;

private:
    enum Word : int { living, leaving };
    struct Peer {
        std::string name;
        MPI_Request said = MPI_REQUEST_NULL, heard = MPI_REQUEST_NULL;
        int word = living;  ///< the last message received
        bool left = false;
    };
    std::vector<Peer> peers_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    double patience_ = default_patience;
    std::atomic<bool> quiet_{false};  ///< a rank is lost: ranks that give up must get no more messages
    std::optional<Watch> watch_;

    void name_peers();
    void say(Peer &peer, const int &word);
    bool hear(int rank);
    bool alive(int rank);
    void take_leave();
};

}  // namespace cryolite
