#include "runtime/device/opencl/opencl_device.h"

#include <cstring>
#include <deque>

#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/device/opencl/opencl_api.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Device memory as a buffer of Halide's runtime, with elements of 8 bytes; arguments are crops of it.
struct Block {
    halide_dimension_t extent;
    halide_buffer_t buffer = {};
    std::deque<halide_buffer_t> parts;

    static constexpr size_t unit = 8;
    explicit Block(size_t bytes) : extent(0, int32_t((bytes + unit - 1) / unit), 1) {
        buffer.type = halide_type_t(halide_type_uint, 8 * unit);
        buffer.dimensions = 1;
        buffer.dim = &extent;
    }
    Block(const Block &) = delete;
};

Block &block_of(const DeviceMemory &m) { return *static_cast<Block *>(m.address); }

/// Copies of uploads until the device has read them, one for each upload since the last `finish`. Their memory is kept,
/// so that the uploads of the next step reuse it.
class Staging {
public:
    const void *keep(const void *from, size_t bytes) {
        if (used_ == places_.size()) places_.emplace_back();
        std::vector<char> &place = places_[used_++];
        if (place.size() < bytes) place.resize(bytes);
        std::memcpy(place.data(), from, bytes);
        return place.data();
    }
    void reuse() { used_ = 0; }

private:
    std::deque<std::vector<char>> places_;
    size_t used_ = 0;
};

class OpenClDevice : public Device {
public:
    OpenClDevice() : cl_(OpenClApi::load()), halide_(HalideOpenCl::find()), interface_(halide_.device_interface()) {
        int major = 0, minor = 0;
        check(interface_->compute_capability(context(), &major, &minor), "starting OpenCL");
        void *cl_context = nullptr;
        check(halide_.acquire_context(context(), &cl_context, &queue_, true), "starting OpenCL");
        halide_.release_context(context());
        inspect(cl_context);
    }
    ~OpenClDevice() override { cl_.finish(queue_); }

    std::string name() const override { return "opencl"; }

    DeviceMemory allocate(size_t bytes, const std::string &what) override {
        if (bytes == 0) return {};
        if (bytes / Block::unit >= size_t(INT32_MAX))
            fail("{}: {} are more than one buffer of OpenCL can have here; use a smaller batch, context or model", what,
                 human_bytes(bytes));
        auto block = std::make_unique<Block>(bytes);
        if (halide_.allocate(context(), &block->buffer, interface_))
            throw OutOfMemory(
                fmt::format("{}: the device has no memory for {} ({})", what, human_bytes(bytes), scheduler_.error()));
        const DeviceMemory memory{block.release(), bytes};
        const uint64_t zero = 0;
        const size_t all = (bytes + Block::unit - 1) / Block::unit * Block::unit;
        check(cl_.fill(queue_, cl_memory(memory), &zero, sizeof zero, 0, all, 0, nullptr, nullptr), "clearing " + what);
        return memory;
    }
    void release(DeviceMemory &m) override {
        if (!m.address) return;
        std::unique_ptr<Block> block(&block_of(m));
        for (halide_buffer_t &part : block->parts) halide_.release_crop(context(), &part);
        halide_.free(context(), &block->buffer);
        m = {};
    }

    void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) override {
        constexpr size_t large = size_t(16) << 20;  // weights are too large to copy
        const bool wait = bytes > large;
        check(cl_.write(queue_, cl_memory(to), wait, offset, bytes, wait ? from : staging_.keep(from, bytes), 0,
                        nullptr, nullptr),
              "copying to the device");
    }
    void download(void *to, const DeviceMemory &from, size_t offset, size_t bytes) override {
        check(cl_.read(queue_, cl_memory(from), false, offset, bytes, to, 0, nullptr, nullptr),
              "copying from the device");
    }

    void bind(halide_buffer_t &argument, const DeviceMemory &m, size_t offset) override {
        if (offset % alignment_)
            fail("an array begins {} bytes into a buffer, but OpenCL's {} can begin one at multiples of {} only",
                 offset, device_name_, alignment_);
        Block &block = block_of(m);
        const int32_t at = int32_t(offset / Block::unit);
        halide_dimension_t rest(at, block.extent.extent - at, 1);
        halide_buffer_t &part = block.parts.emplace_back(block.buffer);
        part.device = 0, part.device_interface = nullptr, part.dim = &rest;
        check(halide_.crop(context(), &block.buffer, &part), "binding an argument");
        part.dim = &block.extent;
        argument.host = nullptr;
        argument.device = part.device, argument.device_interface = part.device_interface;
    }
    CallFailure run(std::span<const KernelCall> calls, Replay *) override {
        for (size_t i = 0; i < calls.size(); i++)
            if (int code = run_call(calls[i])) return {int(i), code};
        return {};
    }
    double idle_seconds() const override { return 0; }
    int threads() const override { return 1; }
    void *context() override { return &scheduler_; }
    void finish() override {
        const TraceSpan span("wait", "wait for the device");
        check(cl_.finish(queue_), "waiting for the device");
        staging_.reuse();
    }
    std::string last_error() override { return scheduler_.error(); }

private:
    OpenClApi cl_;
    HalideOpenCl halide_;
    const halide_device_interface_t *interface_;
    TaskScheduler scheduler_{1};  ///< for the thread that launches: its temporaries and error messages
    Staging staging_;
    void *queue_ = nullptr;
    std::string device_name_;
    size_t alignment_ = 1;

    void check(int code, const std::string &what) const {
        if (code) fail("--device opencl: {} failed with code {}: {}", what, code, scheduler_.error());
    }
    void *cl_memory(const DeviceMemory &m) {
        return reinterpret_cast<void *>(halide_.memory(context(), &block_of(m).buffer));
    }
    void inspect(void *cl_context) {
        void *device = nullptr;
        check(cl_.get_context_info(cl_context, cl_.context_devices, sizeof device, &device, nullptr),
              "asking for the device");
        char name[256] = "";
        cl_.get_device_info(device, cl_.device_name, sizeof name - 1, name, nullptr);
        device_name_ = name;
        uint64_t doubles = 0;
        uint32_t bits = 0;
        cl_.get_device_info(device, cl_.device_doubles, sizeof doubles, &doubles, nullptr);
        check(cl_.get_device_info(device, cl_.device_alignment, sizeof bits, &bits, nullptr),
              "asking for the device's alignment");
        if (!doubles)
            fail("--device opencl: {} has no float64, which norms are summed in; use --device cpu", device_name_);
        alignment_ = bits / 8;
    }
};

}  // namespace

std::unique_ptr<Device> make_opencl_device() { return std::make_unique<OpenClDevice>(); }

}  // namespace cryolite
