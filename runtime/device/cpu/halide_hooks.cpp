// Halide's runtime here: parallel loops run on the team of the kernel's user context, temporaries come from its pools.

#include <HalideRuntime.h>

#include <cstdlib>
#include <mutex>
#include <new>

#include "runtime/device/cpu/team.h"

namespace cryolite {

namespace {
constexpr size_t alignment = 128, slack = 64;  // a vector may read past the end of a temporary
}  // namespace

Pool::~Pool() {
    for (Block &b : blocks_) std::free(b.address);
}

void *Pool::take(size_t bytes) {
    Block *best = nullptr;
    for (Block &b : blocks_)
        if (!b.used && b.bytes >= bytes && (!best || b.bytes < best->bytes)) best = &b;
    if (!best || best->bytes > 4 * bytes + 4096) {
        size_t size = (bytes + slack + alignment - 1) / alignment * alignment;
        void *address = std::aligned_alloc(alignment, size);
        if (!address) return nullptr;
        bytes_ += size;
        blocks_.push_back({address, size - slack, false});
        best = &blocks_.back();
    }
    best->used = true;
    return best->address;
}

bool Pool::give(void *block) {
    for (Block &b : blocks_)
        if (b.address == block) return b.used = false, true;
    return false;
}

namespace {

void *allocate(void *context, size_t bytes) {
    if (!context) return std::aligned_alloc(alignment, (bytes + slack + alignment - 1) / alignment * alignment);
    return static_cast<Team *>(context)->pools[size_t(team_thread())].take(bytes);
}

void release(void *context, void *block) {
    if (!block) return;
    if (!context) return std::free(block);
    // A block is given back by the thread that took it: Halide frees where it allocated.
    static_cast<Team *>(context)->pools[size_t(team_thread())].give(block);
}

int run_parallel(void *context, halide_task_t task, int first, int count, uint8_t *closure) {
    if (context) return static_cast<Team *>(context)->loop(task, first, count, closure);
    for (int i = first; i < first + count; i++)
        if (int code = task(context, i, closure)) return code;
    return 0;
}

void keep_error(void *context, const char *message) {
    if (context) static_cast<Team *>(context)->error = message;
}

}  // namespace

void install_halide_hooks() {
    static std::once_flag once;
    std::call_once(once, [] {
        halide_set_custom_do_par_for(run_parallel);
        halide_set_custom_malloc(allocate);
        halide_set_custom_free(release);
        halide_set_error_handler(keep_error);
    });
}

}  // namespace cryolite
