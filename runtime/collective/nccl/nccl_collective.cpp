#include "runtime/collective/nccl/nccl_collective.h"

#include <chrono>
#include <future>
#include <span>
#include <thread>

#include "runtime/collective/nccl/nccl_api.h"
#include "runtime/system/threads.h"

namespace cryolite {

namespace {

class NcclCollective : public DeviceCollective {
public:
    NcclCollective(std::shared_ptr<const NcclApi> api, NcclApi::Object comm, std::unique_ptr<HostCollective> beside,
                   std::string name, std::function<void()> enter)
        : DeviceCollective(beside->worker, beside->workers, beside->signs, beside->watch), library_(std::move(api)),
          api_(*library_), comm_(comm), beside_(std::move(beside)), name_(std::move(name)), enter_(std::move(enter)) {}
    /// The graphs with transfers are destroyed by now: NCCL waits for that, in ncclCommDestroy and in ncclCommAbort.
    ~NcclCollective() override {
        try {
            if (comm_ && broken()) give_up_transfers();
            if (comm_) enter_(), api_.destroy(comm_);
        } catch (const Error &) {  // the GPU itself has failed
        }
        if (!giving_up_.joinable()) return;
        constexpr std::chrono::seconds most(10);  // the other host may be gone
        given_up_.wait_for(most) == std::future_status::ready ? giving_up_.join() : giving_up_.detach();
    }

    void put(std::span<const Transfer> transfers, void *stream) override {
        if (!comm_) fail("{} has left NCCL's group of GPUs, as a worker failed before", name_);
        api_.check(api_.begin_group(), "beginning a group of transfers", comm_);
        NcclApi::Code code = NcclApi::success;
        for (const Transfer &t : transfers)
            if (code == NcclApi::success) code = put(t, stream);
        const NcclApi::Code ended = api_.end_group();
        api_.check(code ? code : ended, fmt::format("a transfer of {}", name_), comm_);
    }

    void check() override {
        NcclApi::Code code = NcclApi::success;
        if (comm_) api_.check(api_.met(comm_, &code), fmt::format("asking after {}", name_), comm_);
        try {
            api_.check(code, fmt::format("a transfer of {}", name_), comm_);
            watch.check();
            if (broken()) fail("{} waited for another worker, which has failed", name_);
        } catch (const Error &) {
            give_up_transfers();
            throw;
        }
    }

    void all_gather(std::span<double> values) override { beside_->all_gather(values); }
    void give_up() override { beside_->give_up(); }
    bool broken() const override { return beside_->broken(); }

    // Each GPU holds the optimizer state of its own shards only, and runs asynchronously to the host. When a worker is
    // lost, there is no whole state to save.
    bool begin_update() override { return !broken(); }
    void settle() override {}
    bool settled() const override { return false; }

private:
    const std::shared_ptr<const NcclApi> library_;
    const NcclApi &api_;
    NcclApi::Object comm_;  ///< null: given up
    const std::unique_ptr<HostCollective> beside_;
    const std::string name_;
    const std::function<void()> enter_;
    std::thread giving_up_;
    std::future<void> given_up_;

    /// Lets the GPU's streams go on without the transfers. ncclCommAbort stops NCCL's kernels at once, but returns only
    /// when the graphs that hold transfers are destroyed. They outlive this call, so a thread makes it.
    void give_up_transfers() {
        if (!comm_) return;
        std::packaged_task<void()> task([library = library_, comm = comm_, enter = enter_] {
            try {
                enter();
            } catch (const Error &) {  // the GPU itself has failed
            }
            library->abort(comm);
        });
        given_up_ = task.get_future();
        giving_up_ = start_thread("giving the workers' NCCL up", std::move(task));
        comm_ = nullptr;
    }
    NcclApi::Code put(const Transfer &t, void *stream) const {
        const size_t part = t.bytes / size_t(workers);
        char *const all = static_cast<char *>(t.address), *const own = all + size_t(worker) * part;
        switch (t.kind) {
        case TransferKind::reduce_scatter:
            return api_.reduce_scatter(all, own, part / sizeof(float), NcclApi::float32, NcclApi::sum, comm_, stream);
        case TransferKind::reduce:
            return api_.reduce(all, all, t.bytes / sizeof(float), NcclApi::float32, NcclApi::sum, t.owner, comm_,
                               stream);
        case TransferKind::all_gather:
            return api_.all_gather(own, all, part, NcclApi::bytes, comm_, stream);
        case TransferKind::broadcast:
            return api_.broadcast(all, all, t.bytes, NcclApi::bytes, t.owner, comm_, stream);
        }
        fail("there is no such transfer");
    }
};

/// Joins on a thread of its own, which is abandoned where a worker is lost: NCCL waits for all workers, for ever.
std::vector<NcclApi::Object> join_workers(const std::shared_ptr<const NcclApi> &library, const NcclApi::Id &id,
                                          const Collective &first, size_t here, const std::function<void(int)> &enter) {
    const int workers = first.workers, begin = first.worker;
    std::packaged_task<std::vector<NcclApi::Object>()> task([=] {
        const NcclApi &api = *library;
        std::vector<NcclApi::Object> comms(here);
        api.check(api.begin_group(), "beginning a group of workers");
        NcclApi::Code code = NcclApi::success;
        for (size_t w = 0; w < here && code == NcclApi::success; w++) {
            enter(int(w));
            code = api.join(&comms[w], workers, id, begin + int(w));
        }
        const NcclApi::Code ended = api.end_group();
        for (size_t w = 0; w < here && (code || ended); w++)
            if (comms[w]) api.abort(comms[w]);
        api.check(code ? code : ended, fmt::format("bringing {} workers together, each on a GPU of its own", workers));
        return comms;
    });
    auto joined = task.get_future();
    std::thread thread = start_thread("the workers' NCCL", std::move(task));
    try {
        while (joined.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) first.watch.check();
    } catch (...) {
        thread.detach();
        throw;
    }
    thread.join();
    return joined.get();
}

}  // namespace

std::vector<std::unique_ptr<Collective>> nccl_collectives(std::vector<std::unique_ptr<HostCollective>> beside,
                                                          Processes &processes, const std::function<void(int)> &enter) {
    const auto api = std::make_shared<const NcclApi>(NcclApi::load());
    NcclApi::Id id{};
    if (processes.rank() == 0) api->check(api->unique_id(&id), "naming the group of workers");
    processes.broadcast(std::as_writable_bytes(std::span(&id, 1)));
    const std::vector<NcclApi::Object> comms = join_workers(api, id, *beside[0], beside.size(), enter);
    std::vector<std::unique_ptr<Collective>> ends;
    for (size_t w = 0; w < beside.size(); w++) {
        std::string name = fmt::format("{} {}", processes.size() > 1 ? "rank" : "worker", beside[w]->worker);
        ends.push_back(std::make_unique<NcclCollective>(api, comms[w], std::move(beside[w]), std::move(name),
                                                        [enter, w] { enter(int(w)); }));
    }
    return ends;
}

void check_nccl() { NcclApi::load(); }

}  // namespace cryolite
