// Runs every kind of transfer of a step with one rank of NCCL on the first GPU, for tools/gpu_check. With a single
// worker none may change its array. Exit status: 0 and a line on stdout, or 1 and what is wrong on stderr.

#include <array>
#include <cstdio>

#include "runtime/collective/local/local_collective.h"
#include "runtime/collective/nccl/nccl_collective.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/exec/exchanges.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

// Stands for what a bundle brings of Halide's runtime; no kernel runs here.
extern "C" const halide_device_interface_t *halide_cuda_device_interface() {
    static const halide_device_interface_t interface {};
    return &interface;
}

namespace {

using namespace cryolite;

/// A transfer as a call of a step: it is put into the side stream between kernels.
struct Call {
    SideStream &side;
    DeviceCollective &end;
    Transfer transfer;
    static int run(void **argv) {
        const Call &c = *static_cast<Call *>(argv[0]);
        c.side.after_kernels();
        c.end.put({&c.transfer, 1}, c.side.stream());
        c.side.mark(0), c.side.kernels_wait(0);
        return 0;
    }
};

/// Runs a transfer three times: put into the streams, captured as a graph, and launched again as that graph.
void check_transfer(Device &device, SideStream &side, DeviceCollective &end, TransferKind kind) {
    std::array<float, 4096> values, got{};
    for (size_t i = 0; i < values.size(); i++) values[i] = float(i) / 3;
    DeviceMemory memory = device.allocate(sizeof values, "an array");
    device.upload(memory, 0, values.data(), sizeof values);
    Call call{side, end, {kind, 0, memory.address, sizeof values}};
    void *argv[] = {&call};
    const KernelCall calls[] = {{.function = Call::run, .argv = argv}};
    std::unique_ptr<Replay> replay = device.make_replay();
    for (int run = 0; run < 3; run++)
        if (device.run(calls, replay.get()).call >= 0) fail("a {}: {}", name_of(kind), device.last_error());
    device.download(got.data(), memory, 0, sizeof got);
    device.finish();
    replay.reset();  // before the communicator is destroyed, which waits for that
    device.release(memory);
    if (got != values) fail("a {} of one worker has changed its array", name_of(kind));
}

}  // namespace

int main() {
    try {
        const std::unique_ptr<Device> device = make_cuda_device();
        const std::unique_ptr<SideStream> side = device->side_stream();
        const auto ends =
            nccl_collectives(local_collectives(1), known_processes(), [&](int) { device->gpu()->stream(); });
        auto &end = dynamic_cast<DeviceCollective &>(*ends[0]);
        for (const TransferKind kind : {TransferKind::reduce_scatter, TransferKind::reduce, TransferKind::all_gather,
                                        TransferKind::broadcast})
            check_transfer(*device, *side, end, kind);
        std::puts("one rank is well");
        return 0;
    } catch (const std::exception &e) {
        tell("nccl_check: {}", e.what());
        return 1;
    }
}
