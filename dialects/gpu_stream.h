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
    /// Empty: nothing is known.
    virtual std::string find(const std::string &gpu, const std::string &library, const std::string &operation) = 0;
    virtual void keep(const std::string &gpu, const std::string &library, const std::string &operation,
                      const std::string &algorithm, double seconds) = 0;
};

/// The stream of a GPU that a step's calls are put into.
class GpuStream {
public:
    virtual ~GpuStream() = default;
    /// The version of CUDA that the driver is of: 12040 is 12.4.
    virtual int driver() const = 0;
    /// A CUstream, whose context is this thread's from now on.
    virtual void *stream() = 0;
    /// What `start` puts into the stream takes so long, by events before and after it; waits for it. Infinite where
    /// `start` returns another code than 0.
    virtual double seconds(const std::function<int()> &start) = 0;
    /// What a library keeps of this GPU; it is given back before the GPU is.
    virtual std::shared_ptr<void> &kept(const std::string &library) = 0;
    /// As AlgorithmRecords, of this GPU.
    virtual std::string find(const std::string &library, const std::string &operation) = 0;
    virtual void keep(const std::string &library, const std::string &operation, const std::string &algorithm,
                      double seconds) = 0;
};

}  // namespace cryolite
