// Halide's runtime on OpenMP: parallel loops run on the team of the kernel's user context.

#include <HalideRuntime.h>
#include <omp.h>

#include <cstdlib>
#include <mutex>
#include <new>

#include "runtime/device/cpu/team.h"

namespace cryolite {

namespace {
constexpr size_t alignment = 128, slack = 64;  // a vector may read past the end of a temporary

thread_local Team *current_team = nullptr;  // set inside a parallel loop
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
    auto *team = static_cast<Team *>(context);
    return team->pools[current_team ? size_t(omp_get_thread_num()) : 0].take(bytes);
}

void release(void *context, void *block) {
    if (!block) return;
    if (!context) return std::free(block);
    auto *team = static_cast<Team *>(context);
    size_t own = current_team ? size_t(omp_get_thread_num()) : 0;
    if (team->pools[own].give(block)) return;
    for (Pool &p : team->pools)
        if (p.give(block)) return;
}

int run_parallel(void *context, halide_task_t task, int first, int count, uint8_t *closure) {
    auto *team = static_cast<Team *>(context);
    // A loop inside a loop runs on the thread that meets it.
    if (!team || team->threads == 1 || count == 1 || current_team) {
        for (int i = first; i < first + count; i++)
            if (int code = task(context, i, closure)) return code;
        return 0;
    }
    int result = 0;
#pragma omp parallel num_threads(team->threads)
    {
        current_team = team;
#pragma omp for schedule(dynamic, 1) nowait
        for (int i = first; i < first + count; i++)
            if (int code = task(context, i, closure)) {
#pragma omp atomic write
                result = code;
            }
        current_team = nullptr;
    }
    return result;
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
