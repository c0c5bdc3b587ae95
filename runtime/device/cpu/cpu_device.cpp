#include "runtime/device/cpu/cpu_device.h"

#include <sched.h>

#include <cstring>

#include "runtime/device/cpu/host_memory.h"
#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/io/error.h"

namespace cryolite {

std::vector<int> core_numbers() {
    std::vector<int> cores;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, &set)) cores.push_back(c);
    return cores;
}

int usable_cores() { return std::max(1, int(core_numbers().size())); }

namespace {

class CpuDevice : public Device {
public:
    CpuDevice(int threads, std::vector<int> cores) : scheduler_(threads, std::move(cores)) {}

    std::string name() const override { return "cpu"; }

    DeviceMemory allocate(size_t bytes, const std::string &what) override { return memory_.allocate(bytes, what); }
    void release(DeviceMemory &m) override { memory_.release(m); }
    void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) override {
        std::memcpy(static_cast<char *>(to.address) + offset, from, bytes);
    }
    void download(void *to, const DeviceMemory &from, size_t offset, size_t bytes) override {
        std::memcpy(to, static_cast<const char *>(from.address) + offset, bytes);
    }
    void *host_address(const halide_buffer_t &argument) const override { return argument.host; }
    void bind_host(halide_buffer_t &argument, const void *address) const override {
        argument.host = static_cast<uint8_t *>(const_cast<void *>(address));
    }
    void bind(halide_buffer_t &argument, const DeviceMemory &m, size_t offset) override {
        argument.host = static_cast<uint8_t *>(m.address) + offset;
    }
    CallFailure run(std::span<const KernelCall> calls, Replay *) override { return scheduler_.run(calls); }
    double idle_seconds() const override { return scheduler_.idle_seconds(); }
    int threads() const override { return scheduler_.threads; }
    bool works() override { return scheduler_.works(); }
    void *context() override { return &scheduler_; }
    void finish() override {}
    std::string last_error() override { return scheduler_.error(); }

private:
    HostMemory memory_;
    TaskScheduler scheduler_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores) {
    return std::make_unique<CpuDevice>(threads > 0 ? threads : usable_cores(), std::move(cores));
}

}  // namespace cryolite
