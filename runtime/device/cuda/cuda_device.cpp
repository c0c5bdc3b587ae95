#include "runtime/device/cuda/cuda_device.h"

#include <dlfcn.h>

#include "runtime/device/cuda/kernel_launcher.h"
#include "runtime/device/cuda/staging.h"
#include "runtime/device/cuda/timed_stream.h"

namespace cryolite {

namespace {

/// A GPU with its context, which is the one that other libraries of this process use too.
class Gpu {
public:
    explicit Gpu(const CudaApi &api) : api_(api) {
        const CudaApi::Code begun = api.init(0);
        int count = 0;
        if (begun == CudaApi::no_device || (begun == 0 && api.device_count(&count) == 0 && count == 0))
            fail("--device cuda: CUDA's driver sees no GPU: nvidia-smi lists those of this machine, "
                 "CUDA_VISIBLE_DEVICES may hide them; or use --device cpu");
        api.check(begun, "starting CUDA");
        api.check(api.get_device(&device_, 0), "asking for the GPU");
        char text[256] = "";
        api.check(api.device_name(text, sizeof text - 1, device_), "asking for the GPU's name");
        name = text;
        int major = 0, minor = 0;
        api.check(api.device_attribute(&major, CudaApi::capability_major, device_), "asking for the capability");
        api.check(api.device_attribute(&minor, CudaApi::capability_minor, device_), "asking for the capability");
        capability = 10 * major + minor;
        api.check(api.retain_context(&context_, device_), "making the context");
        if (const CudaApi::Code code = enter()) {
            api.release_context(device_);
            api.check(code, "entering the context");
        }
    }
    ~Gpu() { api_.release_context(device_); }
    Gpu(const Gpu &) = delete;

    /// Every thread that calls the driver has the context first.
    CudaApi::Code enter() const { return api_.set_current(context_); }
    void use() const { api_.check(enter(), "entering the context"); }

    std::string name;
    int capability = 0;

private:
    const CudaApi &api_;
    int device_ = 0;
    CudaApi::Object context_ = nullptr;
};

class Stream {
public:
    explicit Stream(const CudaApi &api) : api_(api) {
        api.check(api.create_stream(&stream, CudaApi::stream_apart), "creating a stream");
    }
    ~Stream() { api_.wait_for_stream(stream), api_.destroy_stream(stream); }
    Stream(const Stream &) = delete;
    CudaApi::Object stream = nullptr;

private:
    const CudaApi &api_;
};

/// The launches of some calls, from their second run on.
struct Graph : Replay {
    explicit Graph(const CudaApi &api) : api(api) {}
    ~Graph() override {
        if (executable) api.destroy_executable(executable);
    }
    const CudaApi &api;
    bool has_run = false;
    CudaApi::Object executable = nullptr;
};

const halide_device_interface_t *halide_interface() {
    using Interface = const halide_device_interface_t *();
    auto *found = reinterpret_cast<Interface *>(dlsym(RTLD_DEFAULT, "halide_cuda_device_interface"));
    if (!found)
        fail("--device cuda: what kernels need of Halide's runtime is not loaded: open a bundle that was compiled with "
             "--device cuda before the device");
    return found();
}

class CudaDevice : public Device {
public:
    CudaDevice() : api_(CudaApi::load()), gpu_(api_), launcher_(api_, stream_.stream, halide_interface()) {}
    ~CudaDevice() override { gpu_.enter(), api_.wait_for_stream(stream_.stream), timed_.forget(); }

    std::string name() const override { return "cuda"; }
    void check_capability(int needed) const override {
        if (gpu_.capability >= needed) return;
        fail("--device cuda: the kernels are for GPUs of compute capability {}.{} and newer, and the {} has {}.{}{}",
             needed / 10, needed % 10, gpu_.name, gpu_.capability / 10, gpu_.capability % 10,
             gpu_.capability >= 80 ? ": compile them with --target sm_80"
                                   : "; there are none for GPUs older than 8.0: use --device cpu");
    }

    DeviceMemory allocate(size_t bytes, const std::string &what) override {
        if (bytes == 0) return {};
        gpu_.use();
        CudaApi::Address address = 0;
        if (const CudaApi::Code code = api_.allocate(&address, bytes); code == CudaApi::out_of_memory) {
            size_t free = 0, total = 0;
            api_.memory_left(&free, &total);
            throw OutOfMemory(fmt::format("{}: the {} has no memory for {}: {} of its {} are free", what, gpu_.name,
                                          human_bytes(bytes), human_bytes(free), human_bytes(total)));
        } else {
            api_.check(code, "allocating " + what);
        }
        if (const CudaApi::Code code = api_.fill(address, 0, bytes, stream_.stream)) {
            api_.free(address);
            api_.check(code, "clearing " + what);
        }
        return {reinterpret_cast<void *>(address), bytes};
    }
    void release(DeviceMemory &m) override {
        if (!m.address) return;
        gpu_.enter();
        api_.wait_for_stream(stream_.stream);
        staging_.forget();  // whoever gives memory back reads no more of it
        api_.free(address_of(m));
        m = {};
    }

    void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) override {
        gpu_.use();
        if (staging_.upload(address_of(to) + offset, from, bytes)) return;
        api_.check(api_.to_device(address_of(to) + offset, from, bytes, stream_.stream), "copying to the device");
        api_.check(api_.wait_for_stream(stream_.stream), "copying to the device");
    }
    void download(void *to, const DeviceMemory &from, size_t offset, size_t bytes) override {
        gpu_.use();
        if (staging_.download(to, address_of(from) + offset, bytes)) return;
        api_.check(api_.to_host(to, address_of(from) + offset, bytes, stream_.stream), "copying from the device");
    }

    void bind(halide_buffer_t &argument, const DeviceMemory &m, size_t offset) override {
        argument.host = nullptr;
        argument.device = address_of(m) + offset, argument.device_interface = launcher_.interface();
    }
    void *address(const halide_buffer_t &argument) const override { return reinterpret_cast<void *>(argument.device); }
    GpuStream *gpu() override { return &timed_; }
    void use_records(std::shared_ptr<AlgorithmRecords> records) override { timed_.records = std::move(records); }
    std::unique_ptr<Replay> make_replay() override { return std::make_unique<Graph>(api_); }
    CallFailure run(std::span<const KernelCall> calls, Replay *replay) override {
        gpu_.use();
        auto *graph = static_cast<Graph *>(replay);
        if (!graph || !graph->has_run) {  // loads their PTX and takes their temporaries, which no graph may
            const CallFailure failure = start(calls);
            if (graph && failure.call < 0) graph->has_run = true;
            return failure;
        }
        if (!graph->executable)
            if (const CallFailure failure = capture(calls, *graph); failure.call >= 0) return failure;
        api_.check(api_.launch_graph(graph->executable, stream_.stream), "launching a graph");
        return {};
    }
    double idle_seconds() const override { return 0; }
    int threads() const override { return 1; }
    void *context() override { return static_cast<TaskScheduler *>(&launcher_); }
    void finish() override {
        const TraceSpan span("wait", "wait for the device");
        gpu_.use();
        api_.check(api_.wait_for_stream(stream_.stream), "what was started before");
        staging_.all_done();
    }
    bool runs_ahead() const override { return true; }
    uint64_t mark() override { return gpu_.use(), staging_.mark(); }
    void await(uint64_t mark) override {
        const TraceSpan span("wait", "wait for a step");
        gpu_.use();
        staging_.await(mark);
    }
    std::string last_error() override { return launcher_.error(); }

private:
    const CudaApi api_;
    const Gpu gpu_;
    const Stream stream_{api_};
    CudaStaging staging_{api_, stream_.stream};
    TimedStream timed_{api_, stream_.stream, gpu_.name, [this] { gpu_.use(); }};
    KernelLauncher launcher_;

    static CudaApi::Address address_of(const DeviceMemory &m) { return reinterpret_cast<CudaApi::Address>(m.address); }
    static CallFailure start(std::span<const KernelCall> calls) {
        for (size_t i = 0; i < calls.size(); i++)
            if (const int code = run_call(calls[i])) return {int(i), code};
        return {};
    }
    CallFailure capture(std::span<const KernelCall> calls, Graph &graph) {
        api_.check(api_.begin_capture(stream_.stream, CudaApi::capture_relaxed), "capturing a graph");
        const CallFailure failure = start(calls);
        CudaApi::Object captured = nullptr;
        const CudaApi::Code ended = api_.end_capture(stream_.stream, &captured);
        if (failure.call < 0) api_.check(ended, "capturing a graph");
        const CudaApi::Code made = failure.call < 0 ? api_.instantiate(&graph.executable, captured, 0) : 0;
        if (captured) api_.destroy_graph(captured);
        api_.check(made, "making a graph of launches");
        return failure;
    }
};

}  // namespace

std::unique_ptr<Device> make_cuda_device() { return std::make_unique<CudaDevice>(); }

void check_cuda_driver() { CudaApi::load(); }

}  // namespace cryolite
