#pragma once
// What a device gives to a library that computes on its GPU.

#include <functional>
#include <memory>
#include <string>

namespace cryolite {

/// Which algorithm of a library was the fastest for an operation, kept from one process to the next.
class AlgorithmRecords {
public:
    virtual ~AlgorithmRecords() = default;
    /// The recorded algorithm; empty: none is recorded.
    virtual std::string find(const std::string &gpu, const std::string &library, const std::string &operation) = 0;
    virtual void keep(const std::string &gpu, const std::string &library, const std::string &operation,
                      const std::string &algorithm, double seconds) = 0;
};

/// The stream of a GPU that a step's calls are put into.
class GpuStream {
public:
    virtual ~GpuStream() = default;
    /// The driver's version of CUDA: 12040 is 12.4.
    virtual int driver() const = 0;
    /// The CUstream. Makes its context current in this thread.
    virtual void *stream() = 0;
    /// Puts a copy of `rows` rows of so many bytes into the stream. They begin every `to_stride` and `from_stride`
    /// bytes. Returns the driver's message; empty: no error.
    virtual std::string copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                                  size_t rows) = 0;
    /// Calls `start`, which puts work into the stream, and waits for that work. Returns the time in seconds between
    /// events before and after it; infinite where `start` returns a code other than 0.
    virtual double seconds(const std::function<int()> &start) = 0;
    /// What a library keeps for this GPU, such as its handle; it is freed before the GPU is released.
    virtual std::shared_ptr<void> &kept(const std::string &library) = 0;
    /// As in AlgorithmRecords, for this GPU.
    virtual std::string find(const std::string &library, const std::string &operation) = 0;
    virtual void keep(const std::string &library, const std::string &operation, const std::string &algorithm,
                      double seconds) = 0;
};

}  // namespace cryolite
