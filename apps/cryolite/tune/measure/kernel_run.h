#pragma once
// One kernel by itself, on arrays of its own.

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
    /// The arguments of a kernel of the plan, as the first call of it has them.
    KernelRun(const Plan &plan, const std::string &symbol, Device &device);
    ~KernelRun();
    KernelRun(const KernelRun &) = delete;

    /// Random numbers in all arguments, the same each time.
    void fill();
    /// Fills, runs, and gives all bytes that it wrote. `device` null: its iterations one after another, in this
    /// order.
    std::string outputs(Bundle::Function kernel, Device *device, SerialOrder order = SerialOrder::forwards);
    /// Seconds of so many runs.
    double seconds(Bundle::Function kernel, int times);
    /// How far `got` lies from `expected`, relative to the largest of each array; infinite where only one is finite.
    double distance(const std::string &expected, const std::string &got) const;

private:
    struct Argument {
        const PlanBuffer *buffer;
        const PlanArgument *shape;
        size_t elements, bytes;
        DeviceMemory memory;
        std::vector<halide_dimension_t> dimensions;
        halide_buffer_t view{};
    };
    const Plan &plan_;
    Device &device_;
    std::deque<Argument> arguments_;

    void fill(Argument &a, uint64_t seed);
    void call(Bundle::Function kernel, Device *device);
};

}  // namespace cryolite
