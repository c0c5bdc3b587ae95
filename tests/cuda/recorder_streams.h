#pragma once
// What the recording driver's functions share: its streams, which do what was put there, and how it writes down calls.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

#include "tests/cuda/recorder.h"

namespace cryolite::test {

namespace recording {

using Work = CudaRecorder::Work;

struct Stream;

/// What streams are captured into; its work is done in the order in which it was put there.
struct Graph {
    Stream *origin = nullptr;
    std::vector<Work> work;
    std::map<Stream *, size_t> put, joined;  ///< of streams beside the first: their work, and what the first waits for
};

struct Event {
    std::shared_ptr<bool> done = std::make_shared<bool>(true);
    std::shared_ptr<double> time = std::make_shared<double>(0);
    Stream *of = nullptr;
    std::shared_ptr<Graph> captured = nullptr;  ///< it stands for a place in this one
    size_t after = 0;                           ///< of its stream's work there
};

struct Stream {
    int gpu, number;
    std::deque<Work> work;
    std::shared_ptr<Graph> capturing;

    /// False: what is next has to wait.
    bool run(const std::shared_ptr<bool> &until = nullptr) {
        while (!work.empty() && !(until && *until)) {
            const Work next = work.front();
            if (!next()) return false;
            work.pop_front();
        }
        return true;
    }
};

struct Module;
struct Function {
    std::string name;
    const Module *module;
};
struct Module {
    std::string ptx;
    std::map<std::string, Function> functions;
    size_t registers;  ///< of a thread, at most
};

struct Memory {
    size_t bytes;
    int gpu;
};

inline CudaRecorder state;
inline std::recursive_mutex lock;  // of all that is here: threads of several workers call
inline std::condition_variable_any changed;
constexpr int most_gpus = 16;
inline int contexts[most_gpus];
inline thread_local int *current = nullptr;
inline std::map<uint64_t, Memory> memory;
inline std::set<Stream *> streams;

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_context = 201,
              not_found = 500, no_resources = 701, not_ready = 600, not_while_capturing = 900, unjoined = 904,
              isolated = 905;

constexpr int max_registers = 0;         // CU_JIT_MAX_REGISTERS
constexpr size_t all_registers = 65536;  // of a multiprocessor, which a block can have

using Hold = std::lock_guard<std::recursive_mutex>;

inline int current_gpu() { return current ? int(current - contexts) : 0; }

inline int enter(const std::string &name, const std::string &what = "", const void *stream = nullptr) {
    std::string words = what.empty() ? name : name + " " + what;
    state.calls.push_back(words);
    if (stream) words += " @" + std::to_string(static_cast<const Stream *>(stream)->number);
    state.of_gpu[current_gpu()].push_back(words);
    if (state.fails == name && --state.fails_at == 0) return state.code;
    return success;
}
inline int enter_context(const std::string &name, const std::string &what = "", const void *stream = nullptr) {
    const int code = enter(name, what, stream);
    return code == success && !current ? invalid_context : code;
}
inline bool capturing() {
    return std::ranges::any_of(streams, [](const Stream *s) { return s->gpu == current_gpu() && s->capturing; });
}

/// Whether anything could be done.
inline bool run_all() {
    bool any = false;
    for (bool more = true; more;) {
        more = false;
        for (Stream *s : streams) {
            const size_t before = s->work.size();
            s->run();
            more |= s->work.size() < before;
        }
        any |= more;
    }
    return any;
}

/// Into the stream, or into the graph that is captured from it.
inline int put(void *stream, Work work) {
    auto &s = *static_cast<Stream *>(stream);
    if (s.capturing) {
        s.capturing->put[&s]++;
        return s.capturing->work.push_back(std::move(work)), success;
    }
    s.work.push_back(std::move(work));
    if (!state.slow) run_all();
    changed.notify_all();
    return success;
}
inline int put_at_once(void *stream, std::function<void()> work) {
    return put(stream, [work = std::move(work)] { return work(), true; });
}

/// The host waits: other threads may have to put something first.
inline int wait_for(Stream &s, const std::shared_ptr<bool> &until = nullptr) {
    for (int turns = 0; !s.run(until);)
        if (!run_all() && (changed.wait_for(lock, std::chrono::milliseconds(10)), ++turns > 3000)) return 999;
    return success;
}

/// As the driver does before it frees memory.
inline int wait_for_all(int gpu) {
    const std::vector<Stream *> now(streams.begin(), streams.end());
    for (Stream *s : now)
        if (streams.count(s) && s->gpu == gpu)
            if (const int code = wait_for(*s)) return code;
    return success;
}

/// Of one GPU; -1: of any.
inline bool is_memory(uint64_t address, size_t bytes, int gpu) {
    auto at = memory.upper_bound(address);
    if (at == memory.begin()) return false;
    --at;
    return address + bytes <= at->first + at->second.bytes && (gpu < 0 || gpu == at->second.gpu);
}
inline bool is_memory(uint64_t address, size_t bytes, const void *stream) {
    return is_memory(address, bytes, static_cast<const Stream *>(stream)->gpu);
}

}  // namespace recording

}  // namespace cryolite::test
