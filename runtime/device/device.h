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

/// Memory of a device: opaque but to the device.
struct DeviceMemory {
    void *address = nullptr;
    size_t bytes = 0;
};

/// Whether a call may begin as far as other workers are concerned; broken: one of them has failed, and it never will.
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

/// Runs it; what it returns.
inline int run_call(const KernelCall &call) {
    const TraceSpan span("kernel", call.name);
    return call.function(call.argv);
}

/// What a call returns whose gate is broken.
constexpr int gate_broken = -1000;

/// The call that failed, -1: none, and what it returned.
struct CallFailure {
    int call = -1, code = 0;
};

/// There is no memory for what was asked for: its message says what, how much, and how much is free.
struct OutOfMemory : Error {
    using Error::Error;
};

/// What a device keeps of calls that are run again and again, in one order: on CUDA, a graph of their launches.
class Replay {
public:
    Replay() = default;
    Replay(const Replay &) = delete;
    virtual ~Replay() = default;
};

/// A stream of a GPU beside that of its kernels, for what workers send each other meanwhile.
class SideStream {
public:
    virtual ~SideStream() = default;
    /// A CUstream, whose context is this thread's from now on.
    virtual void *stream() = 0;
    /// What is put there from now on begins after the kernels that were started so far.
    virtual void after_kernels() = 0;
    /// What was put there so far gets this number.
    virtual void mark(size_t number) = 0;
    /// Kernels that are started from now on begin after what has this number.
    virtual void kernels_wait(size_t number) = 0;
};

class Device {
public:
    virtual ~Device() = default;
    virtual std::string name() const = 0;
    /// Whether it can run kernels of this compute capability (Plan::capability). Errors: what helps, where it cannot.
    virtual void check_capability(int) const {}

    /// Zeroed memory, aligned to 64 bytes at least. Errors: how much was asked for and is not there.
    virtual DeviceMemory allocate(size_t bytes, const std::string &what) = 0;
    virtual void release(DeviceMemory &memory) = 0;
    /// In the order of the calls around it. `from` may change as soon as this returns.
    virtual void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) = 0;
    /// The same of what every step brings anew, which a device that runs ahead keeps aside, however much it is.
    virtual void upload_batch(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) {
        upload(to, offset, from, bytes);
    }
    /// What the calls before it have left there; `to` holds it after `finish`.
    virtual void download(void *to, const DeviceMemory &from, size_t offset, size_t bytes) = 0;

    /// Points a kernel's argument at a place in memory, until that is released.
    virtual void bind(halide_buffer_t &argument, const DeviceMemory &memory, size_t offset) = 0;
    /// What an argument is bound to as libraries know it, which compute on the device: its own address.
    virtual void *address(const halide_buffer_t &argument) const { return host_address(argument); }
    /// Where libraries put what they compute on a GPU; null: the device is none of CUDA's.
    virtual GpuStream *gpu() { return nullptr; }
    /// Where libraries find, and leave, which of their algorithms was the fastest.
    virtual void use_records(std::shared_ptr<AlgorithmRecords>) {}
    /// The host's address of what an argument is bound to, for workers that add each other's gradients; null:
    /// there is none.
    virtual void *host_address(const halide_buffer_t &) const { return nullptr; }
    /// Points an argument at the host's memory of another worker; only where `host_address` knows addresses.
    virtual void bind_host(halide_buffer_t &, const void *) const {}
    /// For what workers send each other, where each has a device of its own; null: this one has no such stream.
    virtual std::unique_ptr<SideStream> side_stream() { return nullptr; }
    /// Asked again and again while the host waits for the device, which waits for other workers: throws where they
    /// never come. Empty: nobody else is waited for.
    virtual void use_watch(std::function<void()>) {}
    /// For calls that will be run again; null: the device keeps nothing of them.
    virtual std::unique_ptr<Replay> make_replay() { return nullptr; }
    /// Loads what the compiled ones of these calls launch, and starts none. A device that other workers' devices wait
    /// for may not load anything while they do.
    virtual CallFailure prepare(std::span<const KernelCall>) { return {}; }
    /// Starts every call once, each after those it waits for; may return before they are done. `replay`: of these
    /// calls, or null.
    virtual CallFailure run(std::span<const KernelCall> calls, Replay *replay = nullptr) = 0;
    /// Seconds that the device's threads have waited for each other so far, added over `threads()`.
    virtual double idle_seconds() const = 0;
    virtual int threads() const = 0;
    /// Whether a call of `run` has gone on since this was asked last, or waits for other workers only. Asked by one
    /// thread, of devices that several workers may have.
    virtual bool works() { return true; }
    /// What kernels get as their user context.
    virtual void *context() = 0;
    /// Waits until everything that was started is done; throws the first error that was met.
    virtual void finish() = 0;
    /// How often the host has waited for everything that it had started; null: its threads are the host's.
    virtual std::optional<uint64_t> waits() const { return std::nullopt; }
    /// How often it has waited, in `await`, for what was started before a mark; null: as above.
    virtual std::optional<uint64_t> step_waits() const { return std::nullopt; }
    /// Whether the host may start a step before it has read what came of the one before.
    virtual bool runs_ahead() const { return false; }
    /// A point after all that was started so far.
    virtual uint64_t mark() { return 0; }
    /// Waits until what was started before the mark is done; its downloads are there then.
    virtual void await(uint64_t) { finish(); }
    /// The message of the last kernel that failed.
    virtual std::string last_error() = 0;
};

}  // namespace cryolite
