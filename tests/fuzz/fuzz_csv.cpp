#include <cmath>

#include "runtime/data/table.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

/// A byte of options, then the table: plain, or compressed where it begins as gzip does.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const TableOptions options{.columns = size_t(data[0] & 3), .classes = data[0] >> 4};
    const fuzz::InputFile input(fuzz::text_of(data + 1, size - 1));
    fuzz::may_refuse([&] {
        const Table table = load_table(input.path(), options);
        fuzz::require(table.rows() > 0 && table.columns > 0);
        fuzz::require(table.features.size() == table.rows() * table.columns);
        fuzz::require(options.columns == 0 || table.columns == options.columns);
        for (float x : table.features) fuzz::require(std::isfinite(x));
        for (int32_t label : table.labels) fuzz::require(label == no_label || (label >= 0 && label < table.classes));
        const auto [train, held_out] = split_held_out(table);
        fuzz::require(train.rows() + held_out.rows() == table.rows());
    });
    return 0;
}
