#include "runtime/device/cuda/cuda_device.h"

#include "runtime/device/cuda/gpu.h"
#include "runtime/device/cuda/kernel_launcher.h"
#include "runtime/device/cuda/nvtx.h"
#include "runtime/device/cuda/staging.h"
#include "runtime/device/cuda/timed_stream.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

/// The graph of a list of calls, captured in their second run.
struct Graph : Replay {
    explicit Graph(const CudaApi &api) : api(api) {}
    ~Graph() override {
        if (executable) api.destroy_executable(executable);
    }
    const CudaApi &api;
    bool has_run = false;
    std::string words;  ///< the first and the last call: "wte ... next(wte.weight)"
    CudaApi::Object executable = nullptr;
};

/// Events order it with the kernels' stream, so that a capture of that stream captures this one, too.
class CudaSideStream : public SideStream {
public:
    CudaSideStream(const CudaApi &api, const Gpu &gpu, CudaApi::Object kernels)
        : api_(api), gpu_(gpu), kernels_(kernels), stream_(api) {}
    ~CudaSideStream() override {
        gpu_.enter();
        for (CudaApi::Object e : events_)
            if (e) api_.destroy_event(e);
    }
    void *stream() override { return gpu_.use(), stream_.stream; }
    void after_kernels() override { link(0, kernels_), wait(0, stream_.stream); }
    void mark(size_t number) override { link(number + 1, stream_.stream); }
    void kernels_wait(size_t number) override { wait(number + 1, kernels_); }

private:
    const CudaApi &api_;
    const Gpu &gpu_;
    const CudaApi::Object kernels_;
    const Stream stream_;
    std::vector<CudaApi::Object> events_;  ///< the first marks kernels, the others transfers

    void link(size_t event, CudaApi::Object stream) {
        if (events_.size() <= event) events_.resize(event + 1);
        if (!events_[event])
            api_.check(api_.create_event(&events_[event], CudaApi::event_without_time), "creating an event");
        api_.check(api_.record(events_[event], stream), "ordering what workers send each other");
    }
    void wait(size_t event, CudaApi::Object stream) {
        api_.check(api_.stream_waits(stream, events_.at(event), 0), "ordering what workers send each other");
    }
};

class CudaDevice : public Device {
public:
    explicit CudaDevice(const GpuChoice &choice)
        : api_(CudaApi::load()), gpu_(api_, choice),
          launcher_(api_, stream_.stream, KernelLauncher::interface_of_bundles()) {
        if (const std::string_view why = NvtxRange::why_none(); !why.empty()) tell("cryolite: {}", why);
    }
    ~CudaDevice() override { gpu_.enter(), wait_.settle(stream_.stream), timed_.forget(); }

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
        wait_.settle(stream_.stream);
        staging_.forget();  // downloads of released memory are not wanted any more
        api_.free(address_of(m));
        m = {};
    }

    void upload(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) override {
        gpu_.use();
        if (staging_.upload(address_of(to) + offset, from, bytes)) return;
        upload_waiting(to, offset, from, bytes);
    }
    void upload_batch(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) override {
        gpu_.use();
        if (staging_.upload(address_of(to) + offset, from, bytes, true)) return;
        upload_waiting(to, offset, from, bytes);
    }
    void upload_waiting(const DeviceMemory &to, size_t offset, const void *from, size_t bytes) {
        api_.check(api_.to_device(address_of(to) + offset, from, bytes, stream_.stream), "copying to the device");
        api_.check(wait_.stream(stream_.stream), "copying to the device");
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
    std::unique_ptr<SideStream> side_stream() override {
        gpu_.use();
        return std::make_unique<CudaSideStream>(api_, gpu_, stream_.stream);
    }
    void use_watch(std::function<void()> watch) override { wait_.watch = std::move(watch); }
    bool works() override { return wait_.works(); }
    std::unique_ptr<Replay> make_replay() override { return std::make_unique<Graph>(api_); }
    CallFailure prepare(std::span<const KernelCall> calls) override {
        gpu_.use();
        for (size_t i = 0; i < calls.size(); i++) {
            if (!calls[i].compiled) continue;
            wait_.sign();
            const auto rehearse = [&] {
                const KernelLauncher::Rehearsal rehearsal(launcher_);
                return calls[i].function(calls[i].argv);
            };
            if (const int code = rehearse()) return {int(i), code};
            if (const int code = launcher_.load()) return {int(i), code};
        }
        return {};
    }
    CallFailure run(std::span<const KernelCall> calls, Replay *replay) override {
        gpu_.use();
        auto *graph = static_cast<Graph *>(replay);
        if (!graph || !graph->has_run) {  // the first run loads PTX and allocates temporaries, which no capture may
            if (graph)
                if (const CallFailure failure = prepare(calls); failure.call >= 0) return failure;
            const CallFailure failure = start(calls);
            if (graph && failure.call < 0) graph->has_run = true;
            return failure;
        }
        if (!graph->executable)
            if (const CallFailure failure = capture(calls, *graph); failure.call >= 0) return failure;
        wait_.sign();
        const NvtxRange range(graph->words);
        api_.check(api_.launch_graph(graph->executable, stream_.stream), "launching a graph");
        return {};
    }
    double idle_seconds() const override { return 0; }
    int threads() const override { return 1; }
    void *context() override { return static_cast<TaskScheduler *>(&launcher_); }
    void finish() override {
        const TraceSpan span("wait", "wait for the device");
        gpu_.use();
        api_.check(wait_.stream(stream_.stream), "what was started before");
        staging_.all_done();
    }
    std::optional<uint64_t> waits() const override { return wait_.waits(); }
    std::optional<uint64_t> step_waits() const override { return staging_.waits(); }
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
    HostWait wait_{api_};
    CudaStaging staging_{api_, stream_.stream, wait_};
    TimedStream timed_{api_, stream_.stream, wait_, gpu_.name, [this] { gpu_.use(); }};
    KernelLauncher launcher_;

    static CudaApi::Address address_of(const DeviceMemory &m) { return reinterpret_cast<CudaApi::Address>(m.address); }
    CallFailure start(std::span<const KernelCall> calls) {
        for (size_t i = 0; i < calls.size(); i++) {
            wait_.sign();
            const NvtxRange range(calls[i].name);
            if (const int code = run_call(calls[i])) return {int(i), code};
        }
        return {};
    }
    static std::string words_of(std::span<const KernelCall> calls) {
        std::string_view first, last;
        for (const KernelCall &c : calls)
            if (!c.name.empty()) first = first.empty() ? c.name : first, last = c.name;
        return first == last ? std::string(first) : fmt::format("{} ... {}", first, last);
    }
    CallFailure capture(std::span<const KernelCall> calls, Graph &graph) {
        api_.check(api_.begin_capture(stream_.stream, CudaApi::capture_relaxed), "capturing a graph");
        CudaApi::Object captured = nullptr;
        CallFailure failure;
        try {
            failure = start(calls);
        } catch (...) {  // or the stream would go on capturing
            if (api_.end_capture(stream_.stream, &captured) == 0 && captured) api_.destroy_graph(captured);
            throw;
        }
        const CudaApi::Code ended = api_.end_capture(stream_.stream, &captured);
        const bool whole = failure.call < 0 && !ended;
        const CudaApi::Code made = whole ? api_.instantiate(&graph.executable, captured, 0) : 0;
        if (captured) api_.destroy_graph(captured);
        if (failure.call < 0) api_.check(ended, "capturing a graph");
        api_.check(made, "making a graph of launches");
        graph.words = words_of(calls);
        return failure;
    }
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const GpuChoice &choice) { return std::make_unique<CudaDevice>(choice); }

Hardware cuda_hardware() {
    const CudaApi api = CudaApi::load();
    return Gpu(api, {}).hardware();
}

void check_cuda_driver() { CudaApi::load(); }

}  // namespace cryolite
