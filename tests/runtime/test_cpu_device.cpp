#include <cstring>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/device/make_device.h"

namespace cryolite {

// A bias of 1024 numbers fills a page, and a tile of a product reads a whole panel of it.
TEST_CASE("cpu: a kernel may read four vectors past the end of an array, whatever its size") {
    const auto device = make_device("cpu", 1);
    for (size_t bytes : {size_t(4096), size_t(4096 - 64), size_t(2) << 20, (size_t(2) << 20) - 4}) {
        DeviceMemory m = device->allocate(bytes, "a bias");
        CHECK(m.bytes >= bytes + 256);
        const auto *end = static_cast<const unsigned char *>(m.address) + bytes;
        CHECK(std::accumulate(end, end + 256, 0) == 0);
        device->release(m);
    }
}

}  // namespace cryolite
