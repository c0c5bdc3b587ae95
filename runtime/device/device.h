#pragma once
// Where buffers live and kernels run. Nothing outside of a device's own folder assumes that a buffer's
// address is one of the host's.

#include <HalideRuntime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/gpu_stream.h"
#include "runtime/io/error.h"
#include "runtime/system/trace.h"

namespace cryolite {

/// Memory of a device; only that device knows what `address` means.
struct DeviceMemory {
    void *address = nullptr;
    size_t bytes = 0;
};

/// Whether other workers let a call begin. Broken: one of them has failed, and the call never can.
enum class Gate { closed, open, broken };

/// A kernel with its arguments, and its place among the calls of a plan.
struct KernelCall {
    int (*function)(void **) = nullptr;
    void **argv = nullptr;
    int waits = 0;                 ///< for how many earlier calls it waits
    std::vector<int> next{};       ///< later calls that wait for it
    std::function<Gate()> gate{};  ///< where given, asked by one thread at a time until it is not closed
    std::string_view name{};       ///< in a trace; empty: too short to be shown
    bool compiled = false;         ///< by Halide: a device can find out what it launches without launching it
};

/// Runs the call and returns its code.
inline int run_call(const KernelCall &call) {
    const TraceSpan span("kernel", call.name);
    return call.function(call.argv);
}

/// The code of a call whose gate is broken.
constexpr int gate_broken = -1000;

/// The index of the call that failed, and its code; -1: none failed.
struct CallFailure {
    int call = -1, code = 0;
};

/// There is no memory for what was asked for; the message says what, how much, and how much is free.
struct OutOfMemory : Error {
    using Error::Error;
};

/// What a device keeps of a list of calls that is run again and again: on CUDA, a graph of their launches.
class Replay {
public:
    Replay() = default;
    Replay(const Replay &) = delete;
    virtual ~Replay() = default;
};

/// A second stream of a GPU, for transfers between workers while kernels run in the first.
class SideStream {
public:
    virtual ~SideStream() = default;
    /// A CUstream; its context becomes current on the calling thread.
    virtual void *stream() = 0;
    /// What is put into the stream from now on begins after the kernels that were started so far.
    virtual void after_kernels() = 0;
    /// Gives this number to what was put into the stream so far.
    virtual void mark(size_t number) = 0;
    /// Kernels that are started from now on begin after what `mark` gave this number.
    virtual void kernels_wait(size_t number) = 0;
};

class Device {
public:
    virtual ~Device() = default;
    virtual std::string name() const = 0;
    /// Throws, saying what helps, where the device cannot run kernels of this compute capability (Plan::capability).
    virtual void check_capability(int) const {}

    /// Zeroed memory, aligned to 64 bytes at least; messages call it `what`. Errors: there is not enough.
    virtual DeviceMemory allocate(size_t bytes, const std::string &what) = 0;
    virtual void release(DeviceMemory &memory) = 0;
    /// Copies to the device, in the order of the calls around it. `from` may change as soon as this returns.
    virtual void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) = 0;
    /// As `upload`, for a step's batch: a device that runs ahead of the host stages it, however large it is.
    virtual void upload_batch(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) {
        upload(to, offset, from, bytes);
    }
    /// Copies what the calls before it have left there; `to` is valid after `finish`.
    virtual void download(void *to, const DeviceMemory &from, size_t offset, size_t bytes) = 0;

    /// Points a kernel's argument at a place in memory, until that is released.
    virtual void bind(halide_buffer_t &argument, const DeviceMemory &memory, size_t offset) = 0;
    /// The device's address of what an argument is bound to, for libraries that compute on the device.
    virtual void *address(const halide_buffer_t &argument) const { return host_address(argument); }
    /// The stream in which libraries compute on a GPU; null: this is no CUDA device.
    virtual GpuStream *gpu() { return nullptr; }
    /// Sets the records in which libraries look up and keep their fastest algorithms.
    virtual void use_records(std::shared_ptr<AlgorithmRecords>) {}
    /// The host's address of what an argument is bound to, for workers that add each other's gradients; null:
    /// there is none.
    virtual void *host_address(const halide_buffer_t &) const { return nullptr; }
    /// Points an argument at another worker's host memory; only where `host_address` is not null.
    virtual void bind_host(halide_buffer_t &, const void *) const {}
    /// A stream for transfers, where each worker has its own device; null: this device has none.
    virtual std::unique_ptr<SideStream> side_stream() { return nullptr; }
    /// Sets a function that is called again and again while the host waits for the device, which may wait for other
    /// workers; it throws where they will never come. Empty: the device waits for nobody.
    virtual void use_watch(std::function<void()>) {}
    /// For calls that will be run again; null: the device keeps nothing of them.
    virtual std::unique_ptr<Replay> make_replay() { return nullptr; }
    /// Loads the code that the compiled calls launch, and launches none. Nothing may be loaded while other workers'
    /// devices wait for this one.
    virtual CallFailure prepare(std::span<const KernelCall>) { return {}; }
    /// Starts every call once, each after those it waits for; may return before they are done. `replay`: of these
    /// calls, or null.
    virtual CallFailure run(std::span<const KernelCall> calls, Replay *replay = nullptr) = 0;
    /// Seconds that the device's threads have waited for each other so far, summed over `threads()`.
    virtual double idle_seconds() const = 0;
    virtual int threads() const = 0;
    /// Whether the calls of `run` have made progress since the last call, or only wait for other workers. Asked by one
    /// thread, and only of devices that can serve several workers.
    virtual bool works() { return true; }
    /// What kernels get as their user context.
    virtual void *context() = 0;
    /// Waits until everything that was started is done; throws the first error that was met.
    virtual void finish() = 0;
    /// How often the host has waited for everything that it had started; null: not counted.
    virtual std::optional<uint64_t> waits() const { return std::nullopt; }
    /// How often `await` has waited for a mark; null: not counted.
    virtual std::optional<uint64_t> step_waits() const { return std::nullopt; }
    /// Whether the host may start a step before it has read the results of the one before.
    virtual bool runs_ahead() const { return false; }
    /// A point after all that was started so far.
    virtual uint64_t mark() { return 0; }
    /// Waits until what was started before the mark is done; its downloads are valid then.
    virtual void await(uint64_t) { finish(); }
    /// The message of the last kernel that failed.
    virtual std::string last_error() = 0;
};

}  // namespace cryolite
