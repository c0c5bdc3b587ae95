// Memory of arrays in blocks of huge pages.

#include <algorithm>
#include <cstring>

#include "runtime/device/cpu/host_memory.h"
#include "runtime/io/error.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

bool is_zero(const DeviceMemory &m) {
    const auto *p = static_cast<const char *>(m.address);
    return std::all_of(p, p + m.bytes, [](char c) { return c == 0; });
}

}  // namespace

TEST_CASE("host memory: arrays are zeroed, aligned and apart, whatever their sizes") {
    HostMemory memory;
    std::vector<DeviceMemory> arrays;
    for (size_t bytes : {1, 63, 64, 4096, 1 << 20, 3 << 20, 65 << 20, 7, 2 << 20, 5}) {
        arrays.push_back(memory.allocate(bytes, "weights"));
        const DeviceMemory &m = arrays.back();
        CHECK(m.bytes >= bytes + 256);  // a kernel may read so far past an end
        CHECK(reinterpret_cast<uintptr_t>(m.address) % 64 == 0);
        CHECK(is_zero(m));
        std::memset(m.address, int(arrays.size()), m.bytes);
    }
    for (size_t i = 0; i < arrays.size(); i++) {
        const auto *p = static_cast<const char *>(arrays[i].address);
        CHECK(std::all_of(p, p + arrays[i].bytes, [&](char c) { return c == char(i + 1); }));
    }
    // What was released is not handed out again as it was left.
    for (DeviceMemory &m : arrays) {
        memory.release(m);
        CHECK(m.address == nullptr);
    }
    CHECK(is_zero(memory.allocate(3 << 20, "weights")));
    DeviceMemory nothing = memory.allocate(0, "nothing");
    CHECK(nothing.address == nullptr);
    memory.release(nothing);
}

TEST_CASE("host memory: elements of one index in arrays of equal size do not lie a power of two apart") {
    HostMemory memory;
    memory.allocate(64 << 20, "a model");
    const DeviceMemory a = memory.allocate(1 << 16, "w"), b = memory.allocate(1 << 16, "state");
    const auto apart = static_cast<char *>(b.address) - static_cast<char *>(a.address);
    CHECK(apart % 4096 != 0);
    CHECK(apart >= (1 << 16) + 256);
}

TEST_CASE("host memory: what is not there is named") {
    HostMemory memory;
    CHECK_THROWS_WITH_AS(memory.allocate(size_t{1} << 60, "activations"),
                         doctest::Contains("activations: there is no memory for"), Error);
}

}  // namespace cryolite::test
