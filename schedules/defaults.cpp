#include "schedules/defaults.h"

#include "schedules/cpu/loops.h"
#include "schedules/table.h"

namespace cryolite {

namespace {

/// The width of the panel that pads `columns` least; of equals, a register tile of 3 vectors comes first.
int padded_panel(int columns, const Machine &m) {
    if (columns >= 64 * m.vector) return 3 * m.vector;  // padding is small beside the table
    int best = 0, least = 1 << 30;
    for (int vectors : {3, 4, 2, 1}) {
        if (vectors == 4 && m.registers < 32) continue;  // wider than a tile
        int width = vectors * m.vector, padded = (columns + width - 1) / width * width;
        if (padded < least) best = width, least = padded;
    }
    return best;
}

}  // namespace

Layout default_layout(const Graph &graph, const Parameter &w, const Machine &m) {
    if (m.gpu()) return row_major();  // threads side by side read elements side by side
    for (const Graph::Call &c : graph.calls()) {
        const auto &own = c.layer->parameters();
        if (w.shape().rank() != 2 || own.empty() || own[0] != &w) continue;
        if (loops_kind(*c.layer) == "TiedHead") return panels(padded_panel(w.shape()[1], m), 1);
        const auto product = c.layer->product();
        if (loops_kind(*c.layer) != "Linear" || !product) continue;
        if (int width = cpu::panel_width(w.shape()[product->out_dim], m)) return panels(width, product->out_dim);
    }
    return row_major();
}

int fused_update_rows(const Layer &layer, bool clip) {
    if (loops_kind(layer) != "Linear" && loops_kind(layer) != "TiedHead") return 0;
    return clip ? 128 : 256;
}

int64_t joined_update_elements(const Machine &m) { return m.gpu() ? 1 << 16 : 0; }

int head_block_rows(int64_t bytes, const Machine &m) {
    return bytes > (m.gpu() ? int64_t(1) << 30 : int64_t(64) << 20) ? head_block_rows(m) : 0;
}

int head_block_rows(const Machine &m) { return m.gpu() ? 2048 : 512; }

}  // namespace cryolite
