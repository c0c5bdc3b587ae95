#pragma once
// A driver of CUDA for tests: it has the functions that runtime/device/cuda calls, keeps memory of the host, writes
// down every call, and fails where it is told to. What is put into a stream is done when somebody waits for it
// (`slow`), or at once. Kernels are functions of the host by their names in PTX; those it does not know do nothing. A
// test program links it and names it in CRYOLITE_CUDA_DRIVER.

#include <cstddef>
#include <functional>
#include <map>
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

    // What happened.
    std::vector<std::string> calls;  ///< "cuLaunchKernel twice"
    size_t allocated = 0;            ///< bytes of the GPU now

    static CudaRecorder &get();
    /// As a kernel that this stream is given, or into the graph that is captured from it; for doubles of libraries.
    static void put_into(void *stream, std::function<void()> work);
    /// Whether these bytes are the GPU's.
    static bool is_memory(const void *address, size_t bytes);

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
