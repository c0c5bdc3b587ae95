#include "runtime/device/cpu/cpu_device.h"

#include <sched.h>
#include <sys/mman.h>

#include <cstring>

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

/// A kernel's tile may read so many bytes past the end of an array: four vectors. What comes of them is dropped.
constexpr size_t read_past_end = 256;

class CpuDevice : public Device {
public:
    CpuDevice(int threads, std::vector<int> cores) : scheduler_(threads, std::move(cores)) {}

    std::string name() const override { return "cpu"; }

    DeviceMemory allocate(size_t bytes, const std::string &what) override {
        if (bytes == 0) return {};
        // Huge pages where they fit: fewer misses of the page table in every kernel.
        void *p =
            mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            fail("{}: there is no memory for {}; use a smaller batch, context or model", what, human_bytes(bytes));
        auto at = (reinterpret_cast<uintptr_t>(p) + huge - 1) / huge * huge;
        auto start = reinterpret_cast<uintptr_t>(p), end = start + bytes + huge;
        if (at > start) munmap(p, at - start);
        size_t keep = (bytes + read_past_end + page - 1) / page * page;
        if (end > at + keep) munmap(reinterpret_cast<void *>(at + keep), end - at - keep);
        madvise(reinterpret_cast<void *>(at), keep, MADV_HUGEPAGE);
        return {reinterpret_cast<void *>(at), keep};
    }
    void release(DeviceMemory &m) override {
        if (m.address) munmap(m.address, m.bytes);
        m = {};
    }
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
    static constexpr size_t huge = size_t(2) << 20, page = 4096;
    TaskScheduler scheduler_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores) {
    return std::make_unique<CpuDevice>(threads > 0 ? threads : usable_cores(), std::move(cores));
}

}  // namespace cryolite
