#include "schedules/cpu/idioms.h"

#include <algorithm>

namespace cryolite::cpu {

Tile register_tile(int columns, int panel, int rows, const Machine &m) {
    const int lanes = panel ? m.vector : lanes_within(columns, m);
    const int vectors = ceil_div(columns, lanes);
    const int accumulators = m.registers * 3 / 4;  // the rest: a row of the panel, a broadcast
    Tile best{lanes, lanes, 1};
    double least = 1e30;
    for (int v = 1; v <= (m.registers >= 32 ? 5 : 3); v++) {
        const bool whole = panel &&
                          ( (v * lanes) % panel == 0 || panel % (v * lanes) == 0);
        if (panel ? !whole : v * lanes > columns) continue;
        const int high = std::min(rows, std::min(accumulators / v, 12));
        // Columns computed, and loads for each multiply-add of a tile.
        const double cost = ceil_div(vectors, v) * v * (1 + 0.2 * (1.0 / v + 1.0 / high));
        if (v <= vectors && cost < least) least = cost, best = {lanes, v * lanes, high};
    }
    return best;
}

int stored_panel(const Func &W) {
    if (!W.defined() || !W.value().defined()) return 0;
    const auto *call = W.value().as<Internal::Call>();
    if (!call || call->args.size() != 3) return 0;
    const auto *lane = call->args[0].as<Internal::Mod>();
    const auto width = lane ? Internal::as_const_int(lane->b) : std::nullopt;
    return width ? int(*width) : 0;
}

int items_per_task(int items, int others, int64_t work) {
    constexpr int tasks = 48;             // balances sixteen threads, and two that are not equal
    constexpr int64_t least = 200 << 10;  // multiply-adds that hide the start of a task
    const int64_t share = ceil_div(items, std::max(1, tasks / others));
    const int64_t enough = std::max<int64_t>(1, least / std::max<int64_t>(1, work));
    return int(std::min<int64_t>(items, std::max(share, enough)));
}

}  // namespace cryolite::cpu
