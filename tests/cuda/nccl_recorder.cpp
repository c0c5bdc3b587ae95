#include "tests/cuda/nccl_recorder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "tests/cuda/recorder.h"

namespace cryolite::test {

namespace {

NcclRecorder state;

constexpr int success = 0, system_error = 2, invalid_argument = 4, invalid_usage = 5;
constexpr int uint8 = 1, float32 = 7;

size_t bytes_of(int type) { return type == float32 ? 4 : 1; }

struct Operation {
    NcclRecorder::Call call;
    const void *from;
    void *to;
};
using Operations = std::vector<Operation>;

struct World;

struct Comm {
    std::shared_ptr<World> world;
    int worker = 0;
    size_t groups = 0;
    bool aborted = false;
    // In its stream:
    const Operations *at = nullptr;                         ///< where it is and waits; null: it does something else
    bool done = false;                                      ///< what it waits for
    std::shared_ptr<int> graphs = std::make_shared<int>();  ///< held by what graphs hold, and by what they launched
};

struct World {
    std::vector<Comm *> comms;  ///< by worker; null: not there yet
};

std::map<std::string, std::shared_ptr<World>> worlds;  ///< by id
std::vector<std::unique_ptr<Comm>> made;               ///< all of them: graphs may hold one that is destroyed
int ids = 0;

struct Pending {
    Comm *comm;
    void *stream;
    Operation operation;
};
thread_local int depth = 0;
thread_local std::vector<Pending> pending;

int enter(const std::string &name) { return state.fails == name && --state.fails_at == 0 ? system_error : success; }

bool same(const Operations &a, const Operations &b) {
    return std::ranges::equal(a, b, [](const Operation &x, const Operation &y) {
        return x.call.name == y.call.name && x.call.count == y.call.count && x.call.type == y.call.type &&
               x.call.root == y.call.root;
    });
}

/// One operation of all workers.
void compute(const std::vector<const Operation *> &all) {
    const NcclRecorder::Call &c = all[0]->call;
    const size_t n = all.size(), bytes = c.count * bytes_of(c.type);
    std::vector<std::vector<char>> results(n);
    // In the tree of the CPU: the first half of the ranks plus the second one.
    const std::function<float(size_t, size_t, size_t)> tree = [&](size_t first, size_t ranks, size_t at) {
        if (ranks == 1) return static_cast<const float *>(all[first]->from)[at];
        return tree(first, ranks / 2, at) + tree(first + ranks / 2, ranks - ranks / 2, at);
    };
    auto sum = [&](size_t begin) {
        std::vector<float> total(c.count);
        for (size_t i = 0; i < c.count; i++) total[i] = tree(0, n, begin + i);
        const char *at = reinterpret_cast<const char *>(total.data());
        return std::vector<char>(at, at + bytes);
    };
    for (size_t w = 0; w < n; w++) {
        if (c.name == "ReduceScatter") results[w] = sum(w * c.count);
        if (c.name == "Reduce" && int(w) == c.root) results[w] = sum(0);
        auto copy = [&](size_t from) {
            const char *at = static_cast<const char *>(all[from]->from);
            results[w].insert(results[w].end(), at, at + bytes);
        };
        for (size_t v = 0; c.name == "AllGather" && v < n; v++) copy(v);
        if (c.name == "Broadcast") copy(size_t(c.root));
    }
    for (size_t w = 0; w < n; w++)
        if (!results[w].empty()) std::memcpy(all[w]->to, results[w].data(), results[w].size());
}

/// As a stream does it: false, not all workers have come.
bool go(Comm &c, const Operations &operations) {
    if (c.aborted) return true;
    if (c.worker == state.never_comes) return false;
    if (!c.at) c.at = &operations, c.done = false;
    const std::vector<Comm *> &all = c.world->comms;
    if (!c.done && std::ranges::all_of(all, [](const Comm *o) { return o && o->at && !o->done; })) {
        for (const Comm *o : all)
            if (!same(*o->at, operations)) state.wrong.push_back("workers do not do the same");
        for (size_t i = 0; state.wrong.empty() && i < operations.size(); i++) {
            std::vector<const Operation *> each;
            for (const Comm *o : all) each.push_back(&(*o->at)[i]);
            compute(each);
        }
        for (Comm *o : all) o->done = true;
        state.done++;
    }
    if (!c.done) return false;
    c.at = nullptr, c.done = false;
    return true;
}

std::string wrong(const Pending &p) {
    const NcclRecorder::Call &c = p.operation.call;
    const size_t bytes = c.count * bytes_of(c.type), all = bytes * p.comm->world->comms.size();
    auto at = [](const void *place, size_t n, void *stream) { return CudaRecorder::is_memory(place, n, stream); };
    if (c.type != uint8 && c.type != float32) return "there is no such type";
    if (!at(p.operation.from, c.name == "ReduceScatter" ? all : bytes, p.stream) ||
        !at(p.operation.to, c.name == "AllGather" ? all : bytes, p.stream))
        return c.name + ": an array is not in the memory of the worker's GPU";
    const auto *from = static_cast<const char *>(p.operation.from), *to = static_cast<const char *>(p.operation.to);
    const size_t place = size_t(p.comm->worker) * bytes;
    if (c.name == "ReduceScatter" ? to != from + place : c.name == "AllGather" ? from != to + place : from != to)
        return c.name + " is not in place";
    return "";
}

int put(Comm *comm, void *stream, const Operation &operation) {
    const auto hold = CudaRecorder::hold();
    if (const int code = enter("nccl" + operation.call.name)) return code;
    pending.push_back({comm, stream, operation});
    if (const std::string what = wrong(pending.back()); !what.empty()) {
        pending.pop_back();
        return state.wrong.push_back(what), invalid_argument;
    }
    if (depth == 0) state.wrong.push_back("an operation outside of a group");
    return success;
}

}  // namespace

NcclRecorder &NcclRecorder::get() { return state; }

}  // namespace cryolite::test

using namespace cryolite::test;

extern "C" {

struct Id {
    char bytes[128];
};

int ncclGetVersion(int *version) { return *version = state.version, success; }
const char *ncclGetErrorString(int code) { return code == success ? "no error" : "unhandled system error"; }
const char *ncclGetLastError(void *) { return "said by the recorder"; }

int ncclGetUniqueId(Id *id) {
    const auto hold = CudaRecorder::hold();
    *id = {};
    std::strcpy(id->bytes, ("world " + std::to_string(ids++)).c_str());
    return enter("ncclGetUniqueId");
}
int ncclCommInitRank(void **comm, int workers, Id id, int worker) {
    const auto hold = CudaRecorder::hold();
    if (const int code = enter("ncclCommInitRank")) return code;
    std::shared_ptr<World> &world = worlds[id.bytes];
    if (!world) world = std::make_shared<World>();
    world->comms.resize(size_t(workers));
    if (worker < 0 || worker >= workers || world->comms[size_t(worker)]) return invalid_usage;
    made.push_back(std::make_unique<Comm>(Comm{world, worker}));
    *comm = world->comms[size_t(worker)] = made.back().get();
    return state.comms++, success;
}
int ncclCommDestroy(void *comm) {
    const auto hold = CudaRecorder::hold();
    auto *c = static_cast<Comm *>(comm);
    if (c->at) state.wrong.push_back("a worker leaves while its stream waits");
    if (c->graphs.use_count() > 1) state.wrong.push_back("ncclCommDestroy waits for ever: a graph holds transfers");
    return state.comms--, success;
}
int ncclCommAbort(void *comm) {
    std::shared_ptr<int> graphs;
    {
        const auto hold = CudaRecorder::hold();
        static_cast<Comm *>(comm)->aborted = true, state.aborted++;
        graphs = static_cast<Comm *>(comm)->graphs;
        CudaRecorder::go_on();
    }
    // As the library does; a test sees what would never end.
    for (int turns = 0; graphs.use_count() > 2; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
        if (++turns > 20000) {
            const auto hold = CudaRecorder::hold();
            return state.wrong.push_back("ncclCommAbort waits for ever: a graph holds transfers"), success;
        }
    const auto hold = CudaRecorder::hold();
    return state.comms--, success;
}
int ncclCommGetAsyncError(void *, int *error) { return *error = state.met, success; }

int ncclGroupStart() { return depth++, success; }
int ncclGroupEnd() {
    const auto hold = CudaRecorder::hold();
    if (--depth > 0) return success;
    if (const int code = enter("ncclGroupEnd")) return pending.clear(), code;
    if (pending.empty()) return success;
    Comm *comm = pending[0].comm;
    void *stream = pending[0].stream;
    const auto operations = std::make_shared<Operations>();
    for (Pending &p : pending) {
        if (p.comm != comm || p.stream != stream) state.wrong.push_back("a group of several workers or streams");
        p.operation.call.group = comm->groups;
        operations->push_back(p.operation);
        state.calls[comm->worker].push_back(p.operation.call);
    }
    comm->groups++;
    pending.clear();
    const std::shared_ptr<int> graph = CudaRecorder::is_captured(stream) ? comm->graphs : nullptr;
    CudaRecorder::put_waiting(stream, "nccl" + operations->front().call.name,
                              [comm, operations, graph] { return go(*comm, *operations); });
    return success;
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation, void *comm, void *stream) {
    if (operation != 0 || type != float32) return invalid_argument;
    return put(static_cast<Comm *>(comm), stream, {{"ReduceScatter", count, type, -1, 0}, from, to});
}
int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root, void *comm, void *stream) {
    if (operation != 0 || type != float32) return invalid_argument;
    return put(static_cast<Comm *>(comm), stream, {{"Reduce", count, type, root, 0}, from, to});
}
int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream) {
    return put(static_cast<Comm *>(comm), stream, {{"AllGather", count, type, -1, 0}, from, to});
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream) {
    return put(static_cast<Comm *>(comm), stream, {{"Broadcast", count, type, root, 0}, from, to});
}
}
