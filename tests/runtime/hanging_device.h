#pragma once

#include <latch>

#include "runtime/device/device.h"

namespace cryolite::test {

/// A device whose run number `hangs_at` never begins.
class HangingDevice : public Device {
public:
    HangingDevice(std::unique_ptr<Device> device, int hangs_at) : device_(std::move(device)), hangs_at_(hangs_at) {}

    std::string name() const override { return device_->name(); }
    DeviceMemory allocate(size_t bytes, const std::string &what) override { return device_->allocate(bytes, what); }
    void release(DeviceMemory &m) override { device_->release(m); }
    void upload(const DeviceMemory &to, size_t at, const void *from, size_t n) override {
        device_->upload(to, at, from, n);
    }
    void download(void *to, const DeviceMemory &from, size_t at, size_t n) override {
        device_->download(to, from, at, n);
    }
    void bind(halide_buffer_t &b, const DeviceMemory &m, size_t offset) override { device_->bind(b, m, offset); }
    void *address(const halide_buffer_t &b) const override { return device_->address(b); }
    GpuStream *gpu() override { return device_->gpu(); }
    void *host_address(const halide_buffer_t &b) const override { return device_->host_address(b); }
    void bind_host(halide_buffer_t &b, const void *address) const override { device_->bind_host(b, address); }
    std::unique_ptr<SideStream> side_stream() override { return device_->side_stream(); }
    void use_watch(std::function<void()> watch) override { device_->use_watch(std::move(watch)); }
    std::unique_ptr<Replay> make_replay() override { return device_->make_replay(); }
    CallFailure run(std::span<const KernelCall> calls, Replay *replay) override {
        if (runs_++ == hangs_at_) std::latch(1).wait();
        return device_->run(calls, replay);
    }
    double idle_seconds() const override { return device_->idle_seconds(); }
    int threads() const override { return device_->threads(); }
    bool works() override { return device_->works(); }
    void *context() override { return device_->context(); }
    void finish() override { device_->finish(); }
    bool runs_ahead() const override { return device_->runs_ahead(); }
    uint64_t mark() override { return device_->mark(); }
    void await(uint64_t mark) override { device_->await(mark); }
    std::string last_error() override { return device_->last_error(); }

private:
    const std::unique_ptr<Device> device_;
    const int hangs_at_;
    int runs_ = 0;
};

}  // namespace cryolite::test
