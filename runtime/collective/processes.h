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

    /// A process that gives no sign of life for `seconds` is lost: whoever waits for it gets LostWorker.
    virtual void set_patience(double seconds) { (void)seconds; }
    /// This process's end of the collective, where it is one worker of several; null: it runs alone.
    virtual std::unique_ptr<HostCollective> collective() { return nullptr; }
    /// Waits for all processes, without keeping a core busy.
    virtual void barrier() {}
    /// Copies the shares of the other ranks into rank 0's copy of the array. All ranks call it.
    virtual void collect(std::span<std::byte> array, std::span<const Share> shares) { (void)array, (void)shares; }
    /// Those of the usable cores that no other process of the run on this host uses.
    virtual std::vector<int> cores(std::vector<int> usable) { return usable; }
    /// Copies these bytes from rank 0 to all ranks.
    virtual void broadcast(std::span<std::byte> bytes) { (void)bytes; }
    /// The number of processes of the run on this host, which share its memory.
    virtual int on_host() const { return 1; }
    virtual int place_on_host() const { return 0; }  ///< index of this one among them
    /// Ends all processes of the run.
    virtual void abort(int status) { (void)status; }
};

/// The processes of this run; the first call determines them. Errors: mpirun started this process, but Cryolite was
/// built without MPI.
Processes &processes();
/// The same, where `processes` has been called; else this process alone.
Processes &known_processes();
/// Waits for all processes and leaves the run. Call it before the libraries that it needs end. Errors: LostWorker.
void leave_processes();

}  // namespace cryolite
