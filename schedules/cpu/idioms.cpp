#include "schedules/cpu/idioms.h"

#include <algorithm>

namespace cryolite::cpu {

Tile register_tile(int columns, int panel, int rows, const Machine &m, bool dividing) {
    const int lanes = panel ? m.vector : lanes_within(columns, m);
    const int accumulators = m.registers * 3 / 4;  // the rest: a row of the panel, a broadcast
    Tile best{lanes, lanes, 1};
    double least = 1e30;
    for (int v = 1; v <= (m.registers >= 32 ? 5 : 3); v++) {
        const int wide = v * lanes;
        int high = std::min({rows, accumulators / v, 12});
        while (dividing && rows % high) high--;
        const int stored = panel ? ceil_div(columns, panel) * panel : 0;  // tiles may not leave it
        if (panel ? stored % wide || (wide % panel && panel % wide) : wide > columns) continue;
        // Elements computed, those beyond the edges too, and loads for each multiply-add.
        const double computed = double(ceil_div(columns, wide)) * wide * ceil_div(rows, high) * high;
        const double cost = computed * (1 + 0.2 * (1.0 / v + 1.0 / high));
        if (cost < least) least = cost, best = {lanes, wide, high};
    }
    return best;
}

int items_per_task(int items, int others, int64_t work, int least) {
    constexpr int tasks = 48;              // balances sixteen threads, and two that are not equal
    constexpr int64_t enough = 200 << 10;  // multiply-adds that hide the start of a task
    const int64_t some = std::max<int64_t>(least, enough / std::max<int64_t>(1, work));
    const int blocks = int(std::min<int64_t>(ceil_div(tasks, others), items / std::max<int64_t>(1, some)));
    return ceil_div(items, std::max(1, blocks));
}

}  // namespace cryolite::cpu
