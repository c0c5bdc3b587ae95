#pragma once
// The processes of a run: this one alone, or the ranks that mpirun started.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/collective/collective.h"

namespace cryolite {

/// Bytes of an array that one rank has.
struct Share {
    int rank;
    size_t begin, bytes;
};

class Processes {
public:
    virtual ~Processes() = default;
    virtual int rank() const { return 0; }
    virtual int size() const { return 1; }

    /// A process that gives no sign of life for as long is lost: whoever waits for it gets LostWorker.
    virtual void set_patience(double seconds) { (void)seconds; }
    /// The end of this process, which is one worker then.
    virtual std::unique_ptr<HostCollective> collective() { return nullptr; }
    /// Waits for all, without keeping a core busy.
    virtual void barrier() {}
    /// Rank 0 gets the shares of the others in its own copy of the array.
    virtual void collect(std::span<std::byte> array, std::span<const Share> shares) { (void)array, (void)shares; }
    /// Of the cores that this process may use, those that no other of this host counts on.
    virtual std::vector<int> cores(std::vector<int> usable) { return usable; }
    /// What rank 0 has there, all get.
    virtual void broadcast(std::span<std::byte> bytes) { (void)bytes; }
    /// Processes of the run on this host, which share its memory.
    virtual int on_host() const { return 1; }
    virtual int place_on_host() const { return 0; }  ///< this one among them
    /// Ends all processes of the run.
    virtual void abort(int status) { (void)status; }
};

/// The processes of this run; found out by the first call. Errors: mpirun started this process, but Cryolite was built
/// without MPI.
Processes &processes();
/// The same, where `processes` has been called; else this process alone.
Processes &known_processes();
/// Takes leave of the others, once all is done: before the libraries end that this needs. Errors: LostWorker.
void leave_processes();

}  // namespace cryolite
