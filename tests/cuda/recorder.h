#pragma once
// A driver of CUDA for tests: it has the functions that runtime/device/cuda calls, keeps memory of the host, writes
// down every call, and fails where it is told to. Its GPUs are apart, and threads may call it. What is put into a
// stream is done when somebody waits for it (`slow`), or at once. Kernels are functions of the host by their names in
// PTX; those it does not know do nothing. A test program links it and names it in CRYOLITE_CUDA_DRIVER.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cryolite::test {

struct CudaRecorder {
    // What it pretends to be.
    int version = 12040, devices = 1, capability = 90;
    size_t memory = size_t(1) << 30;
    bool slow = false;
    /// What entries of PTX do, with the values of their arguments.
    std::map<std::string, std::function<void(const std::vector<const void *> &)>> kernels;
    std::vector<int> host_kernels;  ///< of the library of host kernels: their arguments
    // Which call fails: the n-th of this name from now on, from 1, with this code.
    std::string fails;
    int fails_at = 0, code = 999;

    int block_threads = 1024;  ///< what it says that registers leave room for

    // What happened.
    std::vector<std::string> calls;                  ///< "cuLaunchKernel twice"
    std::map<int, std::vector<std::string>> of_gpu;  ///< by the GPU of the calling thread: "cuLaunchKernel twice @0"
    size_t allocated = 0;                            ///< bytes of the GPU now
    struct Launch {
        const std::string *ptx;  ///< while its module is loaded
        std::string entry;
        unsigned blocks[3], threads[3], shared;
        size_t registers;                 ///< that a thread may have
        std::vector<uint64_t> arguments;  ///< of the PTX's 8 bytes, which addresses have
    };
    std::vector<Launch> launches;  ///< where kernels were launched or captured

    /// False: it cannot be done yet.
    using Work = std::function<bool()>;

    static CudaRecorder &get();
    /// As a kernel that this stream is given, or into the graph that is captured from it; for doubles of libraries.
    static void put_into(void *stream, std::function<void()> work);
    /// As `put_into`, under this name, of work that may have to wait for that of other GPUs.
    static void put_waiting(void *stream, const std::string &name, Work work);
    /// Whether what is put into this stream goes into a graph.
    static bool is_captured(const void *stream);
    /// Threads may call doubles of libraries, too.
    static std::unique_lock<std::recursive_mutex> hold();
    /// Something that work waits for has come otherwise.
    static void go_on();
    /// Whether these bytes are a GPU's: that of the stream, where one is given.
    static bool is_memory(const void *address, size_t bytes, const void *stream = nullptr);
    /// The memory of a GPU that this address is in: where it begins, and its bytes; 0: it is in none.
    static std::pair<uint64_t, size_t> memory_of(uint64_t address);

    double clock = 0;  ///< seconds that the GPU has computed; doubles of libraries move it on

    /// As at the start; what is allocated stays.
    void reset();
    /// Calls of this name, or of this name and kernel.
    int count(const std::string &name) const;
    /// Calls that make the host wait for the GPU.
    int waits() const;
    /// Calls as one text, those that only ask or prepare left out.
    std::string text() const;
};

}  // namespace cryolite::test
