#include "runtime/data/idx.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

/// A byte whose lowest bits are the number of dimensions, then the file: plain, or compressed where it begins as gzip
/// does.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const size_t dimensions = 1 + (data[0] & 3);
    const fuzz::InputFile input(fuzz::text_of(data + 1, size - 1));
    fuzz::may_refuse([&] {
        const IdxArray array = read_idx(input.path(), dimensions);
        size_t count = 1;
        for (size_t extent : array.extents) count *= extent;
        fuzz::require(array.extents.size() == dimensions && array.values.size() == count);
    });
    return 0;
}
