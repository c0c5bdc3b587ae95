#include "runtime/device/cpu/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// A kernel's tile may read this many bytes past the end of an array: four vectors. Nothing uses these values.
constexpr size_t read_past_end = 256;
constexpr size_t line = 64, huge = size_t{2} << 20;
constexpr size_t largest_shared = size_t{64} << 20;  ///< a block for several arrays

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

/// A block that begins at a huge page; 0: there is no memory.
uintptr_t HostMemory::map(size_t bytes) {
    void *p = mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return 0;
    const auto start = reinterpret_cast<uintptr_t>(p), at = round_up(start, huge), end = start + bytes + huge;
    if (at > start) munmap(p, at - start);
    if (end > at + bytes) munmap(reinterpret_cast<void *>(at + bytes), end - at - bytes);
    madvise(reinterpret_cast<void *>(at), bytes, MADV_HUGEPAGE);
    blocks_[at] = {.bytes = bytes};
    total_ += bytes;
    return at;
}

DeviceMemory HostMemory::allocate(size_t bytes, const std::string &what) {
    if (bytes == 0) return {};
    const size_t keep = round_up(bytes + read_past_end, line);
    uintptr_t block = newest_;
    if (!block || blocks_.at(block).used + keep > blocks_.at(block).bytes) {
        // Blocks grow with the memory that is taken already: a small model takes no large ones.
        const size_t least = round_up(keep, huge), usual = round_up(std::min(total_ / 4, largest_shared), huge);
        block = map(std::max(least, usual));
        if (!block) block = map(least);
        if (!block) throw OutOfMemory(fmt::format("{}: there is no memory for {}", what, human_bytes(bytes)));
        const Block *old = newest_ ? &blocks_.at(newest_) : nullptr;
        if (!old || blocks_.at(block).bytes - keep > old->bytes - old->used) newest_ = block;
    }
    Block &b = blocks_.at(block);
    const uintptr_t at = block + b.used;
    b.used += keep, b.arrays++;
    return {reinterpret_cast<void *>(at), keep};
}

void HostMemory::release(DeviceMemory &m) {
    if (!m.address) return;
    const auto block = std::prev(blocks_.upper_bound(reinterpret_cast<uintptr_t>(m.address)));
    if (--block->second.arrays == 0) {
        munmap(reinterpret_cast<void *>(block->first), block->second.bytes);
        total_ -= block->second.bytes;
        if (newest_ == block->first) newest_ = 0;
        blocks_.erase(block);
    }
    m = {};
}

HostMemory::~HostMemory() {
    for (const auto &[at, block] : blocks_) munmap(reinterpret_cast<void *>(at), block.bytes);
}

}  // namespace cryolite
