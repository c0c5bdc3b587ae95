#pragma once
// Runs one kernel alone, on arrays of its own.

#include <deque>
#include <memory>
#include <vector>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/plan/bundle.h"

namespace cryolite {

/// The compiled function of a kernel, from the library in FOLDER/kernels.so.
class LoadedKernel {
public:
    LoadedKernel(const fs::path &folder, const std::string &symbol);
    Bundle::Function function() const { return function_; }

private:
    Library library_;
    Bundle::Function function_;
};

class KernelRun {
public:
    /// Allocates the arguments that the plan's first call of the kernel `symbol` has. Errors: the plan has no such
    /// call.
    KernelRun(const Plan &plan, const std::string &symbol, Device &device);
    ~KernelRun();
    KernelRun(const KernelRun &) = delete;

    /// Random numbers in all arguments, the same each time.
    void fill();
    /// Fills the arguments, runs the kernel, and returns the bytes of all arguments that it writes. Errors: the kernel
    /// fails, or writes outside of its arrays.
    std::string outputs(Bundle::Function kernel);
    /// The same of a kernel for the CPU, whose parallel iterations run one after another, in `order`.
    std::string outputs(Bundle::Function kernel, SerialOrder order);
    /// The seconds that `times` runs take together.
    double seconds(Bundle::Function kernel, int times);
    /// The largest difference of an element in `got` and `expected`, relative to the largest element of its array;
    /// infinite where only one of the two is finite.
    double distance(const std::string &expected, const std::string &got) const;

private:
    struct Argument {
        const PlanBuffer *buffer;
        const PlanArgument *shape;
        size_t elements, bytes;
        DeviceMemory memory;
        std::vector<unsigned char> staged;  ///< what is copied to the device, and back
        std::vector<halide_dimension_t> dimensions;
        halide_buffer_t view{};
    };
    const Plan &plan_;
    Device &device_;
    std::deque<Argument> arguments_;

    void fill(Argument &a, uint64_t seed);
    void call(Bundle::Function kernel);
    std::string written();
    std::vector<void *> arguments(void **context);
};

}  // namespace cryolite
