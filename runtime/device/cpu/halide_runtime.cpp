// The functions of Halide's runtime that CPU kernels need, in place of Halide's own: parallel loops run on the
// scheduler of the user context, temporaries come from its pools. Kernels find them in the process. So does the part of
// Halide's runtime that a bundle brings for a device, where they are weak: there is one error handler. Programs that
// link this library export them.

#include <HalideRuntime.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/task_scheduler.h"

namespace cryolite {

namespace {
constexpr size_t alignment = 128, slack = 64;  // a vector may read past the end of a temporary
constexpr size_t huge_page = size_t(2) << 20;  // bytes; of small pages, a tile's rows need too many in the TLB
SerialOrder serial_order = SerialOrder::forwards;

/// About 5/8 of the count, and coprime to it: 0, s, 2 s, ... modulo the count are all iterations.
int64_t stride_of(int64_t count) {
    int64_t stride = std::max<int64_t>(1, count * 5 / 8);
    while (std::gcd(stride, count) != 1) stride++;
    return stride;
}
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
        void *address = nullptr;
        if (size >= huge_page / 2) {
            size = (size + huge_page - 1) / huge_page * huge_page;
            address = std::aligned_alloc(huge_page, size);
            if (address) madvise(address, size, MADV_HUGEPAGE);
        } else {
            address = std::aligned_alloc(alignment, size);
        }
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

}  // namespace cryolite

using cryolite::TaskScheduler;

void cryolite::order_serial_loops(SerialOrder order) { serial_order = order; }

void *halide_malloc(void *context, size_t bytes) {
    using namespace cryolite;
    if (!context) return std::aligned_alloc(alignment, (bytes + slack + alignment - 1) / alignment * alignment);
    return static_cast<TaskScheduler *>(context)->pools[size_t(scheduler_thread())].take(bytes);
}

void halide_free(void *context, void *block) {
    if (!block) return;
    if (!context) return std::free(block);
    // A block is given back by the thread that took it: Halide frees where it allocated.
    static_cast<TaskScheduler *>(context)->pools[size_t(cryolite::scheduler_thread())].give(block);
}

int halide_do_par_for(void *context, halide_task_t task, int first, int count, uint8_t *closure) {
    if (context) return static_cast<TaskScheduler *>(context)->loop(task, first, count, closure);
    using cryolite::SerialOrder, cryolite::serial_order;
    const int64_t stride = serial_order == SerialOrder::strided ? cryolite::stride_of(count) : 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = serial_order == SerialOrder::backwards ? count - 1 - i : i * stride % count;
        if (int code = task(context, first + int(at), closure)) return code;
    }
    return 0;
}

void halide_error(void *context, const char *message) {
    if (context) static_cast<TaskScheduler *>(context)->note_error(message);
}
